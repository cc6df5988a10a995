#include "tests/support/random_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace astatide::testing {
namespace {

using Heads = AttentionChoice::Heads;
using Weights = AttentionChoice::Weights;

/// What a definition may name beside Q, K and V.
struct Known {
  std::string name, declaration;
};
const std::vector<Known> kExtraInputs = {
    {"temperature", "[Hq]"},
    {"row_scale", "[B, Hq, Sq]"},
    {"key_scale", "[B, Sk]"},
    {"slope", "[Hq]"},
    {"bias_full", "[B, Hq, Sq, Sk]"},
    {"bias_heads", "[Hq, Sq, Sk]"},
    {"bias_pairs", "[Sq, Sk]"},
    {"bias_keys", "[B, Sk]"},
    {"bias_rows", "[B, Hq, Sq]"},
    {"table", "[Hq, 2*Reach + 1]"},
    {"sink", "[Hq]"},
    {"gate", "[B, Hq, Sq]"},
    {"value_scale", "[B, Sk]"},
    {"doc_q", "{dims: [B, Sq], dtype: i32}"},
    {"doc_k", "{dims: [B, Sk], dtype: i32}"},
    {"length", "{dims: [B], dtype: i32}"},
    {"first", "{dims: [B, Hq], dtype: i32}"},
    {"sees", "{dims: [Hq, Sq/8 + 1, Sk/8 + 1], dtype: bool}"},
    {"dense", "{dims: [B, Sq, Sk], dtype: bool}"},
};
const std::vector<Known> kExtraScalars = {{"scale", "1/sqrt(D)"}, {"cap", "5.0"}, {"limit", "1.5"}, {"slow", "0.05"}};
const std::vector<std::string> kExtraExtents = {"Left", "Right", "Prefix", "Step", "Reach"};

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else if (!word.empty()) {
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string some_factor(Dice& dice) {
  return dice.one_of<std::string>({"* scale", "* scale", "* scale", "* 0.25", "* temperature[h]", "/ sqrt(D)",
                                   "* row_scale[b,h,i]", "* scale * key_scale[b,j]", "* scale * temperature[h]",
                                   "* (-scale)"});
}

std::string some_step(Dice& dice) {
  return dice.one_of<std::string>({
      "cap * tanh(@ / cap)",
      "@ - exp2(-8 * (h + 1) / Hq) * (i + Sk - Sq - j)",
      "@ - slope[h] * slow * abs(i + Sk - Sq - j)",
      "@ + bias_full[b,h,i,j]",
      "@ + bias_heads[h,i,j]",
      "@ + bias_pairs[i,j]",
      "@ + bias_keys[b,j]",
      "@ * 0.5 + bias_keys[b,j] * slow",
      "@ + bias_rows[b,h,i]",
      "@ + table[h, min((max((j - i + Sq - Sk + Reach), 0)), 2*Reach)]",
      "min((max((@), -limit)), limit)",
      "max((@), -1.0)",
      "@ * temperature[h]",
      "@ + slow * (i - j) + slow * (b + h)",
      "select(j % 3 == 0, @ + 1.0, @)",
      "select(i < j, @, @ * 0.5)",
      "limit * sigmoid(@)",
      "@ + slow * @ * @",
      "max((@), 0.0) + log(1.0 + exp(-abs(@)))",
  });
}

std::string some_predicate(Dice& dice) {
  return dice.one_of<std::string>({
      "j <= i",
      "j <= i + Sk - Sq",
      "j <= i + Sk - Sq",
      "j >= i",
      "j + Left >= i + Sk - Sq",
      "j <= i + Sk - Sq + Right",
      "j < Prefix",
      "(i + Sk - Sq - j) % Step == 0",
      "j % Step == h % Step",
      "sees[h, i/8, j/8]",
      "dense[b,i,j]",
      "doc_q[b,i] == doc_k[b,j]",
      "j < length[b]",
      "j >= first[b,h]",
      "i < length[b]",
      "i / 4 >= j / 4",
      "bias_pairs[i,j] > 0.0",
      "i != j",
      "h < 1",
  });
}

std::string some_mask(Dice& dice, int depth = 0) {
  const std::int64_t kind = depth > 1 ? 0 : dice.pick(0, 9);
  if (kind < 5) return some_predicate(dice);
  if (kind == 5) return "not (" + some_mask(dice, depth + 1) + ")";
  const std::string a = some_mask(dice, depth + 1), b = some_mask(dice, depth + 1);
  return "(" + a + (kind < 8 ? ") and (" : ") or (") + b + ")";
}

/// Of weights that are exponentials of the scores.
bool normalises_exponentials(Weights weights) {
  return weights == Weights::softmax || weights == Weights::softmax_base_two || weights == Weights::sink;
}

std::vector<std::string> weight_definitions(Weights weights) {
  switch (weights) {
    case Weights::softmax:
      return {"P[b,h,i,j] = softmax(j, ^[b,h,i,j])"};
    case Weights::softmax_base_two:
      return {"M[b,h,i] = max(j, ^[b,h,i,j])", "Z[b,h,i] = sum(j, exp2(^[b,h,i,j] - M[b,h,i]))",
              "P[b,h,i,j] = exp2(^[b,h,i,j] - M[b,h,i]) / Z[b,h,i]"};
    case Weights::sink:
      return {"M[b,h,i] = max(max(j, ^[b,h,i,j]), sink[h])",
              "Z[b,h,i] = sum(j, exp(^[b,h,i,j] - M[b,h,i])) + exp(sink[h] - M[b,h,i])",
              "P[b,h,i,j] = exp(^[b,h,i,j] - M[b,h,i]) / Z[b,h,i]"};
    case Weights::sigmoid:
      return {"P[b,h,i,j] = sigmoid(^[b,h,i,j] - log(Sk))"};
    case Weights::squares:
      return {"Z[b,h,i] = sum(j, ^[b,h,i,j] * ^[b,h,i,j])", "P[b,h,i,j] = ^[b,h,i,j] * ^[b,h,i,j] / Z[b,h,i]"};
    case Weights::magnitudes:
      return {"Z[b,h,i] = sum(j, abs(^[b,h,i,j]))", "P[b,h,i,j] = abs(^[b,h,i,j]) / Z[b,h,i]"};
  }
  return {};
}

}  // namespace

double Dice::normal() {
  double sum = -6;
  for (int n = 0; n < 12; ++n) sum += static_cast<double>(pick(0, 1 << 20)) / (1 << 20);
  return sum;
}

std::string AttentionChoice::yaml() const {
  const auto index = [&](const std::string& head, const std::string& row, const std::string& last) {
    if (head.empty()) return "[b, " + row + ", " + last + "]";
    return rows_before_heads ? "[b, " + row + ", " + head + ", " + last + "]"
                             : "[b, " + head + ", " + row + ", " + last + "]";
  };
  const auto dims = [&](const std::string& head, const std::string& row, const std::string& last) {
    return replaced(index(head, row, last), "[b,", "[B,");
  };
  const std::string key_head = heads == Heads::grouped ? "h*Hkv/Hq" : heads == Heads::multi ? "h" : "";
  const std::string key_heads = heads == Heads::grouped ? "Hkv" : heads == Heads::multi ? "Hq" : "";
  const std::string width = one_width ? "D" : "Dv";

  std::vector<std::string> define;
  const auto add = [&](const std::string& definition, const std::string& predicate) {
    define.push_back(definition + (predicate.empty() ? "" : " where " + predicate));
  };
  add("S[b,h,i,j] = sum(d, Q" + index("h", "i", "d") + " * K" + index(key_head, "j", "d") + ") " + factor, where);
  std::string last = "S";
  for (const Step& step : steps) {
    const std::string name = "A" + std::to_string(define.size());
    add(name + "[b,h,i,j] = " + replaced(step.value, "@", last + "[b,h,i,j]"), step.where);
    last = name;
  }
  for (const std::string& definition : weight_definitions(weights)) define.push_back(replaced(definition, "^", last));
  const auto finished = [&](const std::string& definition) {
    return replaced(replaced(definition, "^", last), "V@", "V" + index(key_head, "j", "e"));
  };
  define.push_back(finished(output));
  std::string outputs = "O";
  for (const Output& more : more_outputs) {
    if (!more.definition.empty()) define.push_back(finished(more.definition));
    outputs += ", " + more.name;
  }

  std::string all;
  for (const std::string& definition : define) all += definition + "\n";
  std::set<std::string> words = words_of(all);
  std::string inputs = "Q: " + dims("Hq", "Sq", "D") + ", K: " + dims(key_heads, "Sk", "D");
  if (words.contains("V")) inputs += ", V: " + dims(key_heads, "Sk", width);
  for (const Known& input : kExtraInputs)
    if (words.contains(input.name)) {
      inputs += ", " + input.name + ": " + input.declaration;
      words.merge(words_of(input.declaration));
    }
  std::string extents = "B, Hq, Sq, Sk, D";
  if (heads == Heads::grouped) extents += ", Hkv";
  if (!one_width && words.contains("V")) extents += ", Dv";
  for (const std::string& extent : kExtraExtents)
    if (words.contains(extent)) extents += ", " + extent;
  std::string scalars;
  for (const Known& scalar : kExtraScalars)
    if (words.contains(scalar.name)) scalars += (scalars.empty() ? "" : ", ") + scalar.name + ": " + scalar.declaration;

  std::string text = "algorithm: random_attention\nextents: [" + extents + "]\n";
  if (!scalars.empty()) text += "scalars: {" + scalars + "}\n";
  text += "inputs: {" + inputs + "}\ndefine:\n";
  for (const std::string& definition : define) text += "  - " + definition + "\n";
  return text + "outputs: [" + outputs + "]\n";
}

std::vector<AttentionChoice> AttentionChoice::smaller() const {
  std::vector<AttentionChoice> out;
  const auto add = [&](const auto& change) {
    AttentionChoice choice = *this;
    change(choice);
    out.push_back(std::move(choice));
  };
  for (std::size_t n = 0; n < steps.size(); ++n) {
    const auto at = static_cast<std::ptrdiff_t>(n);
    add([&](AttentionChoice& c) { c.steps.erase(c.steps.begin() + at); });
    if (!steps[n].where.empty()) add([&](AttentionChoice& c) { c.steps[n].where.clear(); });
  }
  if (!where.empty()) add([](AttentionChoice& c) { c.where.clear(); });
  for (std::size_t n = 0; n < more_outputs.size(); ++n) {
    const auto at = static_cast<std::ptrdiff_t>(n);
    add([&](AttentionChoice& c) { c.more_outputs.erase(c.more_outputs.begin() + at); });
  }
  if (weights != Weights::softmax) add([](AttentionChoice& c) { c.weights = Weights::softmax; });
  if (heads != Heads::multi) add([](AttentionChoice& c) { c.heads = Heads::multi; });
  if (rows_before_heads) add([](AttentionChoice& c) { c.rows_before_heads = false; });
  if (factor != "* scale") add([](AttentionChoice& c) { c.factor = "* scale"; });
  return out;
}

AttentionChoice random_attention(Dice& dice) {
  AttentionChoice choice;
  choice.heads = dice.one_of<Heads>({Heads::grouped, Heads::grouped, Heads::multi, Heads::one_key_head});
  choice.weights = dice.one_of<Weights>({Weights::softmax, Weights::softmax, Weights::softmax, Weights::softmax,
                                         Weights::softmax_base_two, Weights::sink, Weights::sigmoid, Weights::squares,
                                         Weights::magnitudes});
  choice.rows_before_heads = dice.chance(25);
  choice.one_width = dice.chance(25);
  choice.factor = some_factor(dice);
  if (dice.chance(25)) choice.where = some_mask(dice);
  for (std::int64_t n = dice.one_of<std::int64_t>({0, 1, 1, 2, 2, 3}); n > 0; --n) {
    AttentionChoice::Step step;
    if (dice.chance(75)) step.value = some_step(dice);
    if (dice.chance(40) || step.value == "@") step.where = some_mask(dice);
    choice.steps.push_back(std::move(step));
  }

  std::vector<std::string> main(6, "O[b,h,i,e] = sum(j, P[b,h,i,j] * V@)");
  main.emplace_back("O[b,h,i,e] = sum(j, P[b,h,i,j] * V@) * gate[b,h,i]");
  main.emplace_back("O[b,h,i,e] = sum(j, P[b,h,i,j] * value_scale[b,j] * V@)");
  main.emplace_back("O[b,h,i] = sum(j, P[b,h,i,j] * ^[b,h,i,j])");
  choice.output = dice.one_of(main);
  std::vector<AttentionChoice::Output> more = {
      {"Least", "Least[b,h,i] = min(j, ^[b,h,i,j])"},
      {"Most", "Most[b,h,i] = max(j, ^[b,h,i,j])"},
      {"Mean", "Mean[b,h,i] = sum(j, P[b,h,i,j] * ^[b,h,i,j])"},
      {"Total", "Total[b,h,i] = sum(j, ^[b,h,i,j])"},
  };
  if (!choice.divides_by_scores())
    for (int n = 0; n < 3; ++n)
      more.push_back(dice.chance(70)
                         ? AttentionChoice::Output{"L", "L[b,h,i] = logsumexp(j, ^[b,h,i,j])"}
                         : AttentionChoice::Output{"L", "L[b,h,i] = logsumexp(j, ^[b,h,i,j]) * 1.4426950408889634"});
  if (normalises_exponentials(choice.weights))
    more.push_back({"Entropy", "Entropy[b,h,i] = -sum(j, P[b,h,i,j] * log(P[b,h,i,j]))"});
  std::set<std::string> taken;
  for (std::int64_t n = dice.one_of<std::int64_t>({0, 0, 1, 1, 1, 2, 3}); n > 0; --n) {
    const AttentionChoice::Output& output = dice.one_of(more);
    if (taken.insert(output.name).second) choice.more_outputs.push_back(output);
  }
  return choice;
}

std::map<std::string, std::int64_t> random_lengths(Dice& dice) {
  const std::vector<std::int64_t> rows = {0, 1, 1, 2, 5, 15, 16, 17, 33, 48, 65, 70};
  const std::vector<std::int64_t> keys = {0, 1, 2, 7, 16, 17, 31, 32, 33, 50, 64, 65, 81};
  std::map<std::string, std::int64_t> all;
  all["B"] = dice.chance(4) ? 0 : dice.one_of<std::int64_t>({1, 1, 1, 2});
  all["Hkv"] = dice.pick(1, 2);
  all["Hq"] = all["Hkv"] * dice.one_of<std::int64_t>({1, 1, 2, 3});
  all["Sq"] = dice.one_of(rows);
  all["Sk"] = dice.chance(25) ? all["Sq"] : dice.one_of(keys);
  all["Left"] = dice.pick(0, 20);
  all["Right"] = dice.pick(0, 5);
  all["Prefix"] = dice.pick(0, 20);
  all["Step"] = dice.pick(1, 5);
  all["Reach"] = dice.pick(1, 12);
  return all;
}

std::map<std::string, runtime::HostTensor> random_tensors(const Algorithm& algorithm,
                                                          const std::map<std::string, std::int64_t>& extents,
                                                          ScalarType dtype, bool may_vanish, Dice& dice) {
  const bool growing = dice.chance(20);
  const double spread = dice.one_of<double>({1, 1, 1, may_vanish ? 0.0 : 0.5, 3});
  const std::int64_t keys = extents.at("Sk");
  std::map<std::string, runtime::HostTensor> out;
  for (const Input& input : algorithm.inputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& dim : input.dims) shape.push_back(evaluate_integer(dim, extents));
    const ScalarType type = input.dtype.value_or(dtype);
    runtime::HostTensor tensor = runtime::zeros(type, shape);
    std::int64_t n = 0;
    // The rows of the keys: the dimension of that extent.
    std::int64_t after = 1;
    for (std::size_t d = input.dims.size(); d-- > 0;) {
      const auto* extent = input.dims[d].as<Variable>();
      if (extent != nullptr && extent->name == "Sk") break;
      after *= shape[d];
    }
    runtime::for_each_element(tensor, [&](std::byte* address) {
      double value = 0;
      if (type == ScalarType::boolean) {
        value = dice.chance(60) ? 1 : 0;
      } else if (type == ScalarType::i32) {
        value = input.name.starts_with("doc") ? static_cast<double>(dice.pick(0, 2))
                                              : static_cast<double>(dice.pick(0, std::max<std::int64_t>(keys, 1)));
      } else {
        value = dice.normal();
        if (input.name == "Q") value *= spread;
        if (input.name == "K" && growing)
          value *= 0.2 * static_cast<double>(1 + n / after % std::max<std::int64_t>(keys, 1));
      }
      runtime::store_element(type, address, value);
      ++n;
    });
    out.emplace(input.name, std::move(tensor));
  }
  return out;
}

}  // namespace astatide::testing
