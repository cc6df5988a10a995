#include "compiler/algorithm/lexer.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "compiler/support/characters.h"

namespace astatide {
namespace {

// Longest first.
constexpr std::array kSymbols{
    std::string_view("<="), std::string_view(">="), std::string_view("=="), std::string_view("!="),
    std::string_view("<"),  std::string_view(">"),  std::string_view("="),  std::string_view("("),
    std::string_view(")"),  std::string_view("["),  std::string_view("]"),  std::string_view(","),
    std::string_view("+"),  std::string_view("-"),  std::string_view("*"),  std::string_view("/"),
    std::string_view("%"),
};

// What other languages write, and what it is here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kForeign{
    {{"&&", "and"},
     {"||", "or"},
     {"**", "x*x, or exp2(y*log2(x))"},
     {"//", "/ in brackets and between integers"},
     {"!", "not"},
     {"?", "select(condition, a, b)"},
     {"^", "x*x, or exp2(y*log2(x))"}}};

std::string name_of_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 32 && byte < 127) return std::string("'") + c + "'";
  constexpr std::string_view kHex = "0123456789abcdef";
  return std::string("byte 0x") + kHex[byte / 16] + kHex[byte % 16];
}

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source), text_(source.text()) {}

  std::vector<Token> split() {
    std::vector<Token> tokens;
    for (skip_spaces(); at_ < text_.size(); skip_spaces()) tokens.push_back(next());
    tokens.push_back(Token{Token::Kind::end, "", 0, at_});
    return tokens;
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  Token next() {
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) return number();
    if (is_letter(peek())) return name();
    const std::string_view rest = std::string_view(text_).substr(at_);
    for (const auto& [foreign, ours] : kForeign)
      if (rest.starts_with(foreign) && !rest.starts_with("!="))
        throw UserError(source_.at(at_), "'" + std::string(foreign) + "' is not an operator of the language",
                        {"write " + std::string(ours)});
    for (const std::string_view symbol : kSymbols) {
      if (!rest.starts_with(symbol)) continue;
      Token token{Token::Kind::symbol, std::string(symbol), 0, at_};
      at_ += symbol.size();
      return token;
    }
    throw UserError(source_.at(at_), name_of_character(peek()) + " can't stand in an expression");
  }

  Token name() {
    const std::size_t start = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    return Token{Token::Kind::name, text_.substr(start, at_ - start), 0, start};
  }

  Token number() {
    const std::size_t start = at_;
    bool real = false;
    while (is_digit(peek())) ++at_;
    if (peek() == '.') {
      real = true;
      ++at_;
      while (is_digit(peek())) ++at_;
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      real = true;
      at_ += 1 + sign;
      while (is_digit(peek())) ++at_;
    }
    Token token{real ? Token::Kind::real : Token::Kind::integer, text_.substr(start, at_ - start), 0, start};
    if (is_letter(peek()) || peek() == '.')
      throw UserError(source_.at(start), "'" + quoted(token.text + peek()) + "' is not a number",
                      {"write * between factors; a name starts with a letter"});
    if (real) {
      const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), token.real);
      if (result.ec != std::errc())
        throw UserError(source_.at(start),
                        quoted(token.text) + " does not fit in a double, which holds 1e-307 to 1.79e308");
    }
    return token;
  }

  const SourceText& source_;
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Token> split_into_tokens(const SourceText& source) {
  if (source.text().size() > kLongestExpression)
    throw UserError(source.start(), "the expression has " + std::to_string(source.text().size()) +
                                        " characters, the limit is " + std::to_string(kLongestExpression));
  return Lexer(source).split();
}

}  // namespace astatide
