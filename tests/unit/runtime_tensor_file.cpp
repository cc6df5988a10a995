#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "runtime/tensor_file.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::read_bytes;
using astatide::testing::source_path;
using astatide::testing::TemporaryFolder;
using astatide::testing::write_bytes;

namespace {

// Files that NumPy and safetensors wrote, see tests/fuzz/make_tensor_files.py.
std::string made_by_numpy(const std::string& name) {
  return source_path("tests/fuzz/corpus/tensor_file/" + name).string();
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<double> counting(double first, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(first + i);
  return values;
}

std::string npy(const std::string& header, const std::string& data, int declared_length = -1) {
  const int length = declared_length < 0 ? static_cast<int>(header.size()) : declared_length;
  std::string text("\x93NUMPY\1\0", 8);
  text += static_cast<char>(length & 255);
  text += static_cast<char>(length >> 8);
  return text + header + data;
}

std::string safetensors(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

template <class Act>
std::string message_of(const Act& act) {
  try {
    act();
  } catch (const UserError& error) {
    return format_diagnostic(error.diagnostics().front());
  }
  return "no error";
}

std::string npy_error(const std::string& text) {
  return message_of([&] { parse_npy(as_bytes(text), "q.npy"); });
}

std::string safetensors_error(const std::string& text) {
  return message_of([&] { parse_safetensors(as_bytes(text), "all.safetensors"); });
}

void require_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

const HostTensor& tensor_of(const SafetensorsFile& file, const std::string& name) {
  for (const NamedTensor& named : file.tensors) {
    if (named.name == name) return named.tensor;
  }
  FAIL("no tensor " << name);
  throw 0;
}

}  // namespace

TEST_CASE("every element type and byte order that NumPy writes is read, narrow integers widened") {
  const std::vector<std::pair<std::string, ScalarType>> files = {
      {"f4_little", ScalarType::f32}, {"f2_little", ScalarType::f16},   {"f8_little", ScalarType::f64},
      {"i1_little", ScalarType::i32}, {"i2_little", ScalarType::i32},   {"i4_little", ScalarType::i32},
      {"i8_little", ScalarType::i64}, {"u1_little", ScalarType::u8},    {"u2_little", ScalarType::i32},
      {"u4_little", ScalarType::i64}, {"f4_big", ScalarType::f32},      {"f2_big", ScalarType::f16},
      {"f8_big", ScalarType::f64},    {"i2_big", ScalarType::i32},      {"i8_big", ScalarType::i64},
      {"bfloat16", ScalarType::bf16}, {"f4_version2", ScalarType::f32}, {"f4_version3", ScalarType::f32}};
  for (const auto& [name, dtype] : files) {
    INFO(name);
    const HostTensor tensor = read_npy(made_by_numpy(name + ".npy"));
    CHECK(tensor.dtype == dtype);
    CHECK(tensor.shape == std::vector<std::int64_t>{2, 3});
    CHECK(to_doubles(tensor) == counting(name[0] == 'u' ? 0 : -3, 6));
  }
  const HostTensor flags = read_npy(made_by_numpy("b1_little.npy"));
  CHECK(flags.dtype == ScalarType::boolean);
  CHECK(to_doubles(flags) == std::vector<double>{0, 1, 0, 1, 0, 1});
}

TEST_CASE("Fortran order becomes strides, scalars and empty tensors keep their shape") {
  const HostTensor fortran = read_npy(made_by_numpy("f4_fortran.npy"));
  CHECK(fortran.strides == std::vector<std::int64_t>{1, 2, 6});
  CHECK(to_doubles(fortran) == counting(-3, 12));
  const HostTensor scalar = read_npy(made_by_numpy("f4_scalar.npy"));
  CHECK(scalar.shape.empty());
  CHECK(to_doubles(scalar) == std::vector<double>{-3});
  const HostTensor empty = read_npy(made_by_numpy("f4_empty.npy"));
  CHECK(empty.shape == std::vector<std::int64_t>{2, 0, 3});
  CHECK(to_doubles(empty).empty());
}

TEST_CASE("a written .npy has the very bytes that NumPy writes") {
  for (const char* name : {"f4_little", "f2_little", "f8_little", "i4_little", "i8_little", "u1_little", "b1_little",
                           "bfloat16", "f4_scalar", "f4_vector", "f4_empty"}) {
    INFO(name);
    const std::string path = made_by_numpy(std::string(name) + ".npy");
    CHECK(as_text(print_npy(read_npy(path))) == read_bytes(path));
  }
}

TEST_CASE("all element types of a .safetensors file that the reference wrote are read") {
  const SafetensorsFile file = read_safetensors(made_by_numpy("all_types.safetensors"));
  CHECK(file.metadata == std::map<std::string, std::string>{{"made_by", "numpy"}});
  REQUIRE(file.tensors.size() == 12);
  const std::map<std::string, ScalarType> types = {
      {"f32", ScalarType::f32}, {"f16", ScalarType::f16}, {"bf16", ScalarType::bf16}, {"f64", ScalarType::f64},
      {"i64", ScalarType::i64}, {"i32", ScalarType::i32}, {"i16", ScalarType::i32},   {"i8", ScalarType::i32},
      {"u32", ScalarType::i64}, {"u16", ScalarType::i32}, {"u8", ScalarType::u8}};
  for (const auto& [name, dtype] : types) {
    INFO(name);
    CHECK(tensor_of(file, name).dtype == dtype);
    CHECK(to_doubles(tensor_of(file, name)) == counting(name[0] == 'u' ? 0 : -3, 6));
  }
  CHECK(to_doubles(tensor_of(file, "bool")) == std::vector<double>{0, 1, 0, 1, 0, 1});
  const SafetensorsFile shapes = read_safetensors(made_by_numpy("shapes.safetensors"));
  CHECK(tensor_of(shapes, "scalar").shape.empty());
  CHECK(tensor_of(shapes, "empty").shape == std::vector<std::int64_t>{0, 4});
  CHECK(to_doubles(tensor_of(shapes, "deep")) == counting(-3, 6));
}

TEST_CASE("tensors with strides go through both formats and back") {
  HostTensor tensor = zeros(ScalarType::f16, {2, 3});
  for (std::int64_t i = 0; i < 6; ++i) set(tensor, std::vector<std::int64_t>{i / 3, i % 3}, static_cast<double>(i));
  HostTensor turned = tensor;  // the transpose, with its rows from last to first
  turned.shape = {3, 2};
  turned.strides = {-1, 3};
  turned.offset = 2 * 2;
  const std::vector<double> expected = {2, 5, 1, 4, 0, 3};
  CHECK(to_doubles(turned) == expected);
  CHECK(to_doubles(parse_npy(print_npy(turned), "t")) == expected);
  const auto bytes = print_safetensors({{{"turned", turned}, {"wide", zeros(ScalarType::f64, {1})}}, {{"k", "v"}}});
  const SafetensorsFile again = parse_safetensors(bytes, "t");
  CHECK(to_doubles(tensor_of(again, "turned")) == expected);
  CHECK(tensor_of(again, "turned").dtype == ScalarType::f16);
  CHECK(again.tensors[0].name == "wide");  // the wide ones first, so that all are aligned
  CHECK(again.metadata.at("k") == "v");
}

TEST_CASE("a file is replaced whole, and a place that can't be written is an error that leaves nothing") {
  TemporaryFolder folder;
  const std::string path = (folder / "out.npy").string();
  write_bytes(path, "old");
  write_npy(path, zeros(ScalarType::f32, {4}));
  CHECK(to_doubles(read_npy(path)) == std::vector<double>(4, 0.0));
  const std::string missing = (folder / "missing/out.npy").string();
  require_contains(message_of([&] { write_npy(missing, zeros(ScalarType::f32, {4})); }), {missing, "can't be written"});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("what is no readable file is an error with its path") {
  TemporaryFolder folder;
  const std::string missing = (folder / "none.npy").string();
  require_contains(message_of([&] { read_npy(missing); }), {missing, "can't be read"});
  require_contains(message_of([&] { read_safetensors(folder.path().string()); }), {"no regular file"});
  require_contains(message_of([&] { read_npy("/dev/zero"); }), {"no regular file"});
}

TEST_CASE("a .npy file that is cut anywhere is refused") {
  const std::string whole = read_bytes(made_by_numpy("f4_little.npy"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (npy_error(whole.substr(0, length)).find("q.npy: error: byte ") != 0) FAIL("cut to " << length << " bytes");
  }
  require_contains(npy_error(whole.substr(0, 140)), {"byte 128", "6 elements of 4 bytes need 24 bytes, 12 follow"});
  require_contains(npy_error(whole + "x"), {"24 bytes, 25 follow"});
}

TEST_CASE("a .safetensors file that is cut anywhere is refused") {
  const std::string whole = read_bytes(made_by_numpy("shapes.safetensors"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (safetensors_error(whole.substr(0, length)).find("all.safetensors: error: byte ") != 0)
      FAIL("cut to " << length << " bytes");
  }
  require_contains(safetensors_error(whole + "x"), {"1 bytes of data belong to no tensor"});
}

TEST_CASE("a .npy header that lies about its length, shape or type is refused with the numbers") {
  const std::string f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  require_contains(npy_error(npy(f4 + "(2,)}", "12345678", 4000)), {"byte 8", "header has 4000 bytes", "follow"});
  require_contains(npy_error(npy(f4 + "(4294967296, 4294967296)}", "")), {"4294967296, 4294967296", "2^63-1"});
  require_contains(npy_error(npy(f4 + "(99999999999999999999,)}", "")), {"an extent passes 2^63-1"});
  require_contains(npy_error(npy(f4 + "(1099511627776,)}", "1234")), {"need 4398046511104 bytes, 4 follow"});
  require_contains(npy_error(npy(f4 + "(-1,)}", "")), {"an extent of 0 or more"});
  require_contains(npy_error(npy(f4 + "(0, 9223372036854775807, 9223372036854775807)}", "x")),
                   {"need 0 bytes, 1 follow"});
  require_contains(npy_error(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678")),
                   {"byte 20", "'<c8'", "note: f2"});
  require_contains(npy_error(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "12345678")), {"'|O'"});
  require_contains(npy_error(read_bytes(made_by_numpy("structured.npy"))), {"structured element types"});
  require_contains(npy_error(npy(f4 + "(1,), 'shape': (1,)}", "1234")), {"'shape' stands twice"});
  require_contains(npy_error(npy(f4 + "(1,), 'extra': 1}", "1234")), {"unknown key 'extra'"});
  require_contains(npy_error(npy("{'descr': '<f4', 'fortran_order': False}", "")), {"lacks 'shape'"});
  require_contains(npy_error(npy("{'descr': '<f4\n\"'", "")), {"'"});
  require_contains(npy_error(std::string("\x93NUMPY\4\0\0\0", 10)), {"byte 6", "version 4.0"});
  require_contains(npy_error("PK\3\4 a .npz file"), {"byte 0", "no .npy file"});
  std::string axes;
  for (int i = 0; i < 65; ++i) axes += "1,";
  require_contains(npy_error(npy(f4 + "(" + axes + ")}", "1234")), {"more than 64 axes"});
}

TEST_CASE("a .safetensors header that lies about offsets, shape or type is refused with the numbers") {
  const auto one = [](const std::string& body, const std::string& data = "12345678") {
    return safetensors_error(safetensors("{\"a\": {" + body + "}}", data));
  };
  require_contains(one(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 16])"),
                   {"tensor 'a'", "[0, 16]", "8 bytes"});
  require_contains(one(R"("dtype": "F32", "shape": [2], "data_offsets": [8, 0])"), {"[8, 0]"});
  require_contains(one(R"("dtype": "F32", "shape": [3], "data_offsets": [0, 8])"),
                   {"3 elements of 4 bytes need 12 bytes", "hold 8"});
  require_contains(one(R"("dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8])"), {"2^63-1"});
  require_contains(one(R"("dtype": "F32", "shape": [-2], "data_offsets": [0, 8])"), {"shape holds something else"});
  require_contains(one(R"("dtype": "F32", "shape": [2.0], "data_offsets": [0, 8])"), {"shape holds something else"});
  require_contains(one(R"("dtype": "F32", "shape": [1e999], "data_offsets": [0, 8])"), {"no 64-bit type"});
  require_contains(one(R"("dtype": "C64", "shape": [1], "data_offsets": [0, 8])"), {"'C64'", "note: F32"});
  require_contains(one(R"("dtype": 4, "shape": [1], "data_offsets": [0, 8])"), {"dtype is no string"});
  require_contains(one(R"("dtype": "F32", "shape": [2])"), {"'data_offsets' is missing"});
  require_contains(one(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8])"), {"3 numbers, 2"});
  require_contains(one(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8], "x": 1)"), {"unknown key 'x'"});
  require_contains(safetensors_error(read_bytes(made_by_numpy("overlap.safetensors"))), {"tensor 'b'", "overlap"});
  require_contains(
      safetensors_error(safetensors(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]}})", "123456")),
      {"bytes 0 to 4", "belong to no tensor"});
  require_contains(safetensors_error(read_bytes(made_by_numpy("deep.safetensors"))), {"nested deeper than 3"});
  require_contains(safetensors_error(safetensors(R"({"a": 1, "a": 2})", "")), {"names 'a' twice"});
  require_contains(safetensors_error(safetensors(R"({"a\u001b[31m": 1})", "")),
                   {R"('a\x1b[31m')", "an object is expected"});
  require_contains(safetensors_error(safetensors("{\"a\": ", "")), {"byte 14", "no valid JSON"});
  require_contains(safetensors_error(safetensors("[]", "")), {"no JSON object"});
  require_contains(safetensors_error(safetensors(R"({"__metadata__": {"k": 1}})", "")), {"'k' is no string"});
  require_contains(safetensors_error(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
                   {"byte 0", "18446744073709551615", "2 follow"});
}

TEST_CASE("what can't be a .safetensors file isn't written") {
  const HostTensor tensor = zeros(ScalarType::f32, {1});
  CHECK_THROWS_AS(print_safetensors({{{"a", tensor}, {"a", tensor}}, {}}), UserError);
  CHECK_THROWS_AS(print_safetensors({{{"__metadata__", tensor}}, {}}), UserError);
  CHECK_THROWS_AS(print_safetensors({{{"\xff", tensor}}, {}}), UserError);
}

TEST_CASE("elements go from double to each type and back, out of range ones to the nearest end") {
  std::byte place[8];
  const auto through = [&](ScalarType type, double value) {
    store_element(type, place, value);
    return load_element(type, place);
  };
  CHECK(through(ScalarType::f32, 0.1) == static_cast<double>(0.1f));
  CHECK(through(ScalarType::f16, 1.0 + 0x1p-11) == 1.0);
  CHECK(through(ScalarType::bf16, 1.0 + 3 * 0x1p-8) == 1.0 + 0x1p-6);
  CHECK(through(ScalarType::i32, -2.9) == -2);
  CHECK(through(ScalarType::i32, 1e30) == std::numeric_limits<std::int32_t>::max());
  CHECK(through(ScalarType::i64, -1e30) == static_cast<double>(std::numeric_limits<std::int64_t>::min()));
  CHECK(through(ScalarType::i64, 0x1p63) == 0x1p63);
  CHECK(through(ScalarType::u8, 300) == 255);
  CHECK(through(ScalarType::u8, -1) == 0);
  CHECK(through(ScalarType::i32, std::numeric_limits<double>::quiet_NaN()) == 0);
  CHECK(through(ScalarType::boolean, 0.5) == 1);
}

TEST_CASE("a tensor that no memory holds is refused before anything is allocated") {
  CHECK_THROWS_AS(zeros(ScalarType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}), UserError);
  CHECK_THROWS_AS(zeros(ScalarType::f32, {-1}), UserError);
  CHECK(zeros(ScalarType::f64, {std::int64_t{1} << 62, std::int64_t{1} << 62, 0}).element_count() == 0);
}
