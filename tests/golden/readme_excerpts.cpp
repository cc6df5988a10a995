// Text that the READMEs show as the compiler's must be the compiler's. A fenced block behind the comment
//   <!-- emit ALGORITHM SCHEDULE STAGE [f32|f16|bf16] -->
// holds lines of that stage in order; a line "..." stands for lines left out. A block behind
//   <!-- file PATH -->
// is the file.

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <sstream>

#include "compiler/algorithm/algorithm.h"
#include "compiler/cuda/emit.h"
#include "compiler/pipeline.h"
#include "compiler/rewrite/recurrence.h"
#include "tests/support/paths.h"

using namespace astatide;
using astatide::testing::source_path;

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(source_path(path));
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string stage_text(const std::string& algorithm_path, const std::string& schedule_path, const std::string& stage,
                       ScalarType dtype) {
  const Algorithm algorithm = parse_algorithm(read_text(algorithm_path), algorithm_path);
  if (stage == "algorithm") return print_mathematics(algorithm);
  if (stage == "online") return print_recurrence(derive_online(find_cascade(algorithm)));
  const Schedule schedule = parse_schedule(read_text(schedule_path), schedule_path);
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = algorithm.sizes;
  options.dtype = dtype;
  std::string traced;
  const tile::Program program =
      compile(algorithm, schedule, options, [&](std::string_view name, const tile::Program& at) {
        if (name == stage) traced = tile::print(at);
      });
  return stage == "cuda" ? cuda::emit(program).text : traced;
}

struct Excerpt {
  std::string command;
  int line = 0;
  std::vector<std::string> lines;
};

std::vector<Excerpt> excerpts_of(const std::string& markdown) {
  std::vector<Excerpt> out;
  const std::vector<std::string> lines = lines_of(markdown);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const bool marked = lines[i].rfind("<!-- emit ", 0) == 0 || lines[i].rfind("<!-- file ", 0) == 0;
    if (!marked || lines[i + 1].rfind("```", 0) != 0) continue;
    Excerpt excerpt{lines[i].substr(5, lines[i].size() - 9), static_cast<int>(i) + 1, {}};
    for (i += 2; i < lines.size() && lines[i] != "```"; ++i) excerpt.lines.push_back(lines[i]);
    out.push_back(std::move(excerpt));
  }
  return out;
}

std::string text_of(const Excerpt& excerpt) {
  std::istringstream words(excerpt.command);
  std::string kind, algorithm, schedule, stage, dtype;
  words >> kind >> algorithm >> schedule >> stage >> dtype;
  if (kind == "file") return read_text(algorithm);
  return stage_text(algorithm, schedule, stage, dtype.empty() ? ScalarType::f32 : parse_scalar_type(dtype).value());
}

/// The first line of the excerpt that the text does not have behind the ones before.
std::optional<std::string> first_missing(const Excerpt& excerpt) {
  const std::vector<std::string> text = lines_of(text_of(excerpt));
  std::size_t at = 0;
  bool skip = true;  // the text may begin before the excerpt
  for (const std::string& line : excerpt.lines) {
    if (line.find_first_not_of(' ') != std::string::npos && line.substr(line.find_first_not_of(' ')) == "...") {
      skip = true;
      continue;
    }
    while (skip && at < text.size() && text[at] != line) ++at;
    if (at >= text.size() || text[at] != line) return line;
    ++at;
    skip = false;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("what the READMEs show as the compiler's text is the compiler's text") {
  for (const char* path : {"README.md", "compiler/README.md"}) {
    const std::vector<Excerpt> excerpts = excerpts_of(read_text(path));
    CHECK(excerpts.size() >= 3);
    for (const Excerpt& excerpt : excerpts) {
      INFO(path << ":" << excerpt.line << ": " << excerpt.command);
      CHECK(first_missing(excerpt).value_or("") == "");
    }
  }
}

TEST_CASE("an excerpt that the compiler does not give is found") {
  const Excerpt wrong{"emit examples/attention.yaml schedules/simt/flash2.yaml algorithm", 1, {"S[b,h,i,j] = 0"}};
  CHECK(first_missing(wrong) == "S[b,h,i,j] = 0");
}
