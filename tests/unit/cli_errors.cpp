// What is wrong with an input is said with its place and number; nothing is written, and nothing crashes.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/tensor_file.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

constexpr const char* kShape = "B=1,Hq=2,Hkv=2,Sq=20,Sk=30,D=16,Dv=16";

/// A folder with files to be wrong about; afterwards it holds those files and no other.
class Refusals {
 public:
  std::string file(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, text);
    ++files_;
    return (folder_ / name).string();
  }
  std::string missing(const std::string& name) const { return (folder_ / name).string(); }

  /// What is said on standard error; the exit code is `code`.
  std::string refusal(const std::vector<std::string>& words, int code = 2) {
    const ProgramResult result = run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder_ / "cache").string()}});
    std::string line;
    for (const std::string& word : words) line += word.substr(0, 200) + " ";
    INFO(line << "\n" << result.out << result.err);
    CHECK(result.code == code);
    CHECK(result.out.empty());
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found += entry.path().filename() != "cache";
    CHECK(found == files_);
    return result.err;
  }
  std::string run(std::vector<std::string> words, int code = 2) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--device", "cpu"});
    return refusal(words, code);
  }

 private:
  TemporaryFolder folder_;
  std::size_t files_ = 0;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const std::string& algorithm_text() {
  static const std::string text = read_bytes(source_path("examples/causal_gqa.yaml"));
  return text;
}

/// simt/flash2 as it was once: the tests speak of its lines.
const std::string& schedule_text() {
  static const std::string text =
      "# FlashAttention-2\n"
      "target: sm_80\n"
      "rewrite: online\n"
      "O: {tile: {i: 128, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 8]}\n"
      "S: {compute_at: j.o, store_in: register}\n"
      "P: {compute_at: j.o, store_in: shared}\n"
      "Q: {stage_at: i.o, store_in: shared}\n"
      "K: {stage_at: j.o, store_in: shared}\n"
      "V: {stage_at: j.o, store_in: shared}\n";
  return text;
}

}  // namespace

TEST_CASE("unknown words of the command line are refused with the nearest one") {
  Refusals r;
  CHECK_THAT(r.refusal({"expalin"}), Contains("no command 'expalin'") && Contains("explain"));
  CHECK_THAT(r.refusal({"run", "attention", "--chekc"}), Contains("--chekc") && Contains("did you mean --check?"));
  CHECK_THAT(r.refusal({"run", "attention", "surplus"}), Contains("does not take 'surplus'"));
  CHECK_THAT(r.refusal({"run"}), Contains("ALG is required"));
  CHECK_THAT(r.refusal({"run", "attentoin"}), Contains("attentoin") && Contains("did you mean attention?"));
  CHECK_THAT(r.refusal({"emit", "attention", "--stage", "cudda"}), Contains("did you mean cuda?"));
  CHECK_THAT(r.refusal({"emit", "attention"}), Contains("--stage is required"));
  CHECK_THAT(r.run({"attention", "--schedule", "simt/flash3"}),
             Contains("simt/flash3") && Contains("did you mean simt/flash"));
  CHECK_THAT(r.run({"attention", "--dtype", "f61"}), Contains("--dtype") && Contains("f61"));
  CHECK_THAT(r.run({"attention", "--shape", kShape, "--schedule", "cpu/flash2", "--cold"}),
             Contains("--cold: error: the L2 cache is a GPU's, and the launch is on the CPU"));
  CHECK_THAT(r.run({"attention", "--shape", kShape, "--cold", "--rotate"}),
             Contains("--rotate: error: --cold clears the cache that --rotate leaves as launches fill it"));
  CHECK_THAT(r.refusal({"run", "attention", "--device", "gpu"}), Contains("--device") && Contains("did you mean cpu?"));
  CHECK_THAT(r.refusal({"emit", "attention", "--stage", "tile", "--target", "sm_90"}),
             Contains("--target") && Contains("did you mean sm_90a?"));
  CHECK_THAT(r.refusal({"cache", "claer"}), Contains("did you mean clear?"));
}

TEST_CASE("values of the command line are read whole and in range") {
  Refusals r;
  CHECK_THAT(r.run({"attention", "--shape", "Sqq=4"}),
             Contains("--shape") && Contains("'Sqq'") && Contains("did you mean Sq?"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq=-1"}), Contains("Sq is '-1'"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq=4x"}), Contains("Sq is '4x'"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq=1.5"}), Contains("Sq is '1.5'"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq="}), Contains("not of the form NAME=NUMBER"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq=4,Sq=5"}), Contains("Sq is given twice"));
  CHECK_THAT(r.run({"attention", "--shape", "Sq=99999999999999999999"}), Contains("Sq is '99999999999999999999'"));
  CHECK_THAT(r.run({"attention", "--seed", "x"}), Contains("--seed") && Contains("'x'"));
  CHECK_THAT(r.run({"attention", "--repeat", "-1"}), Contains("--repeat"));
  CHECK_THAT(r.run({"attention", "--scalar", "scale=nan"}), Contains("--scalar") && Contains("scale is 'nan'"));
  CHECK_THAT(r.run({"attention", "--scalar", "scale=inf"}), Contains("scale is 'inf'"));
  CHECK_THAT(r.run({"attention", "--scalar", "scael=1"}), Contains("did you mean scale?"));
  CHECK_THAT(r.run({"attention", "--scalar", "scale=1e300"}), Contains("1e+300") && Contains("f32"));
}

TEST_CASE("extents that no kernel can have are refused with the number") {
  Refusals r;
  CHECK_THAT(r.run({"attention", "--shape", "Sk=2147483648"}), Contains("Sk is 2147483648") && Contains("2147418112"));
  CHECK_THAT(r.run({"attention", "--shape", "B=2000000000,Hq=2000000000,Hkv=2000000000,Sq=2000000000"}),
             Contains("2000000000"));
  CHECK_THAT(r.run({"attention", "--shape", "B=1,Hq=5,Hkv=2,Sq=8,Sk=8"}), Contains("Hq = 5") && Contains("Hkv = 2"));
  // As many bytes as no machine has: said before they are asked for.
  CHECK_THAT(r.run({"attention", "--shape", "B=1000000,Hq=1000,Hkv=1000,Sq=1000,Sk=1000"}, 3),
             Contains("bytes of memory"));
  CHECK_THAT(
      r.run({"attention", "--schedule", "cpu/standard", "--shape", "B=1,Hq=1,Hkv=1,Sq=2000000,Sk=2000000,D=1,Dv=1"}, 3),
      Contains("bytes of memory"));
  CHECK_THAT(r.run({"attention", "--shape", "D=1000000"}), Contains("1000000"));
}

TEST_CASE("mistakes in an algorithm are shown with line, column and caret") {
  Refusals r;
  const auto wrong = [&](const std::string& from, const std::string& to) {
    const std::string path = r.file("wrong" + std::to_string(to.size()) + std::to_string(from.size()) + ".yaml",
                                    replaced(algorithm_text(), from, to));
    return r.run({path, "--shape", kShape});
  };
  CHECK_THAT(wrong("outputs: [O, L]", "outputs: [O, M]"), Contains(":11:") && Contains("M"));
  CHECK_THAT(wrong("softmax(j, A[b,h,i,j])", "softmax(k, A[b,h,i,j])"), Contains(":8:") && Contains("^"));
  CHECK_THAT(wrong("Q[b,h,i,d] *", "Q[b,h,i,d,d] *"), Contains(":6:") && Contains("Q"));
  CHECK_THAT(wrong("inputs: ", "inpust: "), Contains("inpust") && Contains("inputs"));
  CHECK_THAT(wrong("extents: [B", "extents: [[B"), Contains(".yaml:"));
  CHECK_THAT(wrong("where j <= i + Sk - Sq", "where j <= i + Sk - "), Contains(":7:"));
}

TEST_CASE("mistakes in a schedule are shown with line, column and caret, all of them") {
  Refusals r;
  int n = 0;
  const auto wrong = [&](const std::string& from, const std::string& to, std::vector<std::string> more = {}) {
    const std::string path = r.file("wrong" + std::to_string(n++) + ".yaml", replaced(schedule_text(), from, to));
    std::vector<std::string> words = {"causal_gqa", "--schedule", path, "--shape", kShape};
    words.insert(words.end(), more.begin(), more.end());
    return r.run(words);
  };
  CHECK_THAT(wrong("compute_at: j.o, store_in: register", "compute_ta: j.o, store_in: register"),
             Contains(":5:") && Contains("compute_at"));
  CHECK_THAT(wrong("S: {compute_at: j.o", "S: {compute_at: x.o"), Contains(":5:") && Contains("x.o"));
  CHECK_THAT(wrong("K: {stage_at", "KK: {stage_at"), Contains(":8:") && Contains("KK"));
  CHECK_THAT(wrong("target: sm_80", "target: sm_81"), Contains(":2:") && Contains("sm_81") && Contains("sm_80"));
  CHECK_THAT(wrong("store_in: register", "store_in: registers"), Contains(":5:") && Contains("register"));
  CHECK_THAT(wrong("stage_at: i.o", "stage_at: '64 '"), Contains(":7:"));
  // Key twice, and a value of the wrong type: both are reported.
  const std::string two =
      r.file("two.yaml", replaced(replaced(schedule_text(), "rewrite: online", "rewrite: online\nrewrite: none"),
                                  "K: {stage_at", "K: {ring_buffer: 64.5, stage_at"));
  CHECK_THAT(r.run({"causal_gqa", "--schedule", two, "--shape", kShape}), Contains("rewrite") && Contains("64.5"));
}

TEST_CASE("tiles over the budget are refused with both numbers and what would fit") {
  Refusals r;
  const std::string wide = "Hq=2,Hkv=2,D=192,Dv=128";
  // A device of 101376 bytes: pytorch/pytorch#180278.
  const std::string said = r.refusal({"emit", "attention", "--stage", "cuda", "--schedule", "simt/flash2_shared_s",
                                      "--target", "sm_86", "--shape", wide});
  CHECK_THAT(said, Contains("sm_86 has 101376") && Contains("bytes of shared memory") && Contains("note: "));
  const std::string big = r.file("big.yaml", replaced(schedule_text(), "i: 128", "i: 4096"));
  CHECK_THAT(r.refusal({"emit", "attention", "--stage", "cuda", "--schedule", big}), Contains("4096"));
}

TEST_CASE("tensor files that are missing, cut off or no such file are refused") {
  Refusals r;
  const runtime::HostTensor q = runtime::zeros(ScalarType::f32, {1, 2, 20, 16});
  const std::vector<std::byte> whole = runtime::print_npy(q);
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  const auto with_input = [&](const std::string& word) {
    return r.run({"attention", "--shape", kShape, "--input", word});
  };
  CHECK_THAT(with_input("Q=" + r.missing("none.npy")), Contains("none.npy"));
  CHECK_THAT(with_input("Q=" + r.file("cut.npy", text.substr(0, text.size() - 7))), Contains("cut.npy"));
  CHECK_THAT(with_input("Q=" + r.file("head.npy", text.substr(0, 20))), Contains("head.npy"));
  CHECK_THAT(with_input("Q=" + r.file("no.npy", "no tensor at all")), Contains("no.npy"));
  CHECK_THAT(with_input(r.file("no.safetensors", "\x08")), Contains("no.safetensors"));
  CHECK_THAT(with_input(r.file("some.npy", text)), Contains("does not say which"));
  CHECK_THAT(with_input("Q=" + r.file("q.txt", text)), Contains("neither in .npy nor in .safetensors"));
  CHECK_THAT(with_input("QQ=" + r.missing("q.npy")), Contains("QQ"));
  CHECK_THAT(r.run({"attention", "--shape", kShape, "--output", "P=" + r.missing("p.npy")}), Contains("P"));
  CHECK_THAT(r.run({"attention", "--shape", kShape, "--output", "O=" + r.missing("no/such/folder/o.npy")}),
             Contains("o.npy"));
  // A shape with another number of dimensions.
  const std::vector<std::byte> flat = runtime::print_npy(runtime::zeros(ScalarType::f32, {5}));
  CHECK_THAT(
      with_input("Q=" + r.file("flat.npy", std::string(reinterpret_cast<const char*>(flat.data()), flat.size()))),
      Contains("Q has 1 dimensions"));
}

TEST_CASE("names that are no identifiers reach no source") {
  Refusals r;
  int n = 0;
  for (const char* name : {"Q\\\"", "Q;__trap()", "a b", "int", "__device__", "x\\ny"}) {
    const std::string text =
        replaced(algorithm_text(), "Q: [B, Hq, Sq, D]", "\"" + std::string(name) + "\": [B, Hq, Sq, D]");
    const std::string said =
        r.refusal({"emit", r.file("hostile" + std::to_string(n++) + ".yaml", text), "--stage", "cuda"});
    CHECK_THAT(said, Contains(":4:"));
  }
  const std::string named =
      r.file("named.yaml", replaced(algorithm_text(), "algorithm: causal_gqa", "algorithm: \"a */ b\""));
  CHECK_THAT(r.refusal({"emit", named, "--stage", "cuda"}), Contains(":1:"));
}

TEST_CASE("deep nesting, long files and giant numbers end in an error") {
  Refusals r;
  std::string deep;
  for (int n = 0; n < 100000; ++n) deep += "(";
  const std::string nested = r.file("deep.yaml", replaced(algorithm_text(), "Q[b,h,i,d] *", deep + " *"));
  CHECK_THAT(r.run({nested}), Contains("deep.yaml"));
  const std::string brackets = r.file("brackets.yaml", "O: " + std::string(200000, '['));
  CHECK_THAT(r.run({"attention", "--schedule", brackets}), Contains("brackets.yaml"));
  const std::string longer = r.file("long.yaml", algorithm_text() + std::string(3 << 20, '#'));
  CHECK_THAT(r.run({longer}), Contains("long.yaml"));
  const std::string unrolled = r.file(
      "unroll.yaml", replaced(schedule_text(), "S: {compute_at: j.o", "S: {unroll: {d: 1000000000}, compute_at: j.o"));
  CHECK_THAT(r.run({"attention", "--schedule", unrolled}), Contains("1000000000"));
  const std::string tile = r.file("tile.yaml", replaced(schedule_text(), "i: 128", "i: 9223372036854775807"));
  CHECK_THAT(r.run({"attention", "--schedule", tile}), Contains("9223372036854775807"));
  CHECK_THAT(r.run({std::string(100000, 'a')}), Contains("aaa"));
}

TEST_CASE("with --json an error is an object with places, messages and notes") {
  const ProgramResult result = run_astatide({"run", "attention", "--shape", "Sqq=1", "--json"});
  CHECK(result.code == 2);
  CHECK(result.err.empty());
  const nlohmann::json out = nlohmann::json::parse(result.out);
  CHECK(out.at("ok") == false);
  const nlohmann::json& error = out.at("errors").at(0);
  CHECK(error.at("where") == "--shape");
  CHECK_THAT(error.at("message").get<std::string>(), Contains("no extent 'Sqq'"));
  CHECK(error.at("notes") == nlohmann::json({"did you mean Sq?"}));
  const ProgramResult words = run_astatide({"rnu", "--json"});
  CHECK(words.code == 2);
  CHECK(nlohmann::json::parse(words.out).at("ok") == false);
}
