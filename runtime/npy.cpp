#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "runtime/stored_type.h"
#include "runtime/tensor_file.h"

namespace astatide::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy writes headers of 118 bytes; this leaves room for any padding.
constexpr std::uint64_t kMostNpyHeaderBytes = 1 << 20;

// V2, two bytes without meaning, is what NumPy writes for the bfloat16 of ml_dtypes.
constexpr KnownType kNpyTypes[] = {
    {"f4", ScalarType::f32, 4, true},  {"f2", ScalarType::f16, 2, true}, {"f8", ScalarType::f64, 8, true},
    {"V2", ScalarType::bf16, 2, true}, {"i8", ScalarType::i64, 8, true}, {"i4", ScalarType::i32, 4, true},
    {"i2", ScalarType::i32, 2, true},  {"i1", ScalarType::i32, 1, true}, {"u4", ScalarType::i64, 4, false},
    {"u2", ScalarType::i32, 2, false}, {"u1", ScalarType::u8, 1, false}, {"b1", ScalarType::boolean, 1, false},
};

struct NpyHeader {
  StoredType stored;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads the dictionary that NumPy prints with repr(): {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyHeaderParser {
 public:
  NpyHeaderParser(const ByteSource& source, std::string_view text, std::uint64_t start)
      : source_(source), text_(text), start_(start) {}

  NpyHeader parse() {
    NpyHeader header;
    std::set<std::string> seen;
    expect('{');
    while (!accept('}')) {
      const std::size_t key_at = at_;
      const std::string key = parse_string();
      if (!seen.insert(key).second) fail(key_at, fmt::format("the key {} stands twice", quote_for_message(key)));
      expect(':');
      skip_space();
      if (key == "descr") {
        header.stored = parse_descr();
      } else if (key == "fortran_order") {
        header.fortran_order = parse_bool();
      } else if (key == "shape") {
        header.shape = parse_shape();
      } else {
        fail(key_at,
             fmt::format("unknown key {}; a header holds descr, fortran_order and shape", quote_for_message(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail(at_, "text after the header's dictionary");
    for (const char* key : {"descr", "fortran_order", "shape"}) {
      if (!seen.contains(key)) fail(0, fmt::format("the header lacks '{}'", key));
    }
    return header;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& message) const { source_.fail(start_ + at, message); }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(at_, fmt::format("'{}' is expected here", c));
  }

  std::string parse_string() {
    skip_space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail(at_, "a quoted name is expected here");
    const char quote = text_[at_];
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(at_, "a quote isn't closed");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool parse_bool() {
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail(at_, "True or False is expected here");
  }

  std::vector<std::int64_t> parse_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMostAxes) fail(at_, fmt::format("more than {} axes", kMostAxes));
      std::int64_t extent = 0;
      const char* first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), extent);
      if (error == std::errc::result_out_of_range) fail(at_, "an extent passes 2^63-1");
      if (error != std::errc() || extent < 0) fail(at_, "an extent of 0 or more is expected here");
      at_ += static_cast<std::size_t>(end - first);
      shape.push_back(extent);
      accept('L');  // Python 2 printed long integers so
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  StoredType parse_descr() {
    const std::size_t at = at_;
    if (at_ < text_.size() && text_[at_] == '[') fail(at_, "structured element types aren't supported");
    const std::string descr = parse_string();
    std::string_view kind = descr;
    StoredType stored;
    if (!kind.empty() && std::string_view("<>|=").find(kind[0]) != std::string_view::npos) {
      stored.big_endian = kind[0] == '>';
      kind.remove_prefix(1);
    }
    for (const KnownType& known : kNpyTypes) {
      if (known.name != kind) continue;
      stored.becomes = known.becomes;
      stored.bytes = known.bytes;
      stored.is_signed = known.is_signed;
      return stored;
    }
    source_.fail(start_ + at, fmt::format("elements of type {} aren't supported", quote_for_message(descr)),
                 {"f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, b1 and V2 (bfloat16) are"});
  }

  const ByteSource& source_;
  std::string_view text_;
  std::uint64_t start_;
  std::size_t at_ = 0;
};

HostTensor read_npy_from(const ByteSource& source) {
  const std::string prefix = source.read_text(0, std::min<std::uint64_t>(source.size(), 10));
  if (!prefix.starts_with(kMagic)) source.fail(0, "this is no .npy file: it doesn't begin with \\x93NUMPY");
  if (prefix.size() < 8) source.fail(source.size(), "the file ends before its format version");
  const int major = static_cast<unsigned char>(prefix[6]);
  const int minor = static_cast<unsigned char>(prefix[7]);
  if (major < 1 || major > 3 || minor != 0) {
    source.fail(6, fmt::format("format version {}.{} isn't known; 1.0, 2.0 and 3.0 are", major, minor));
  }
  const std::uint64_t length_bytes = major == 1 ? 2 : 4;
  const std::string length_text = source.read_text(8, length_bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, length_text.data(), length_bytes);
  const std::uint64_t start = 8 + length_bytes;
  if (length > source.size() - start) {
    source.fail(8, fmt::format("the header has {} bytes, {} follow", length, source.size() - start));
  }
  if (length > kMostNpyHeaderBytes)
    source.fail(8, fmt::format("the header has {} bytes, the limit is {}", length, kMostNpyHeaderBytes));

  const std::string text = source.read_text(start, length);
  const NpyHeader header = NpyHeaderParser(source, text, start).parse();
  const std::int64_t count = checked_element_count(header.shape, size_in_bytes(header.stored.becomes), source.name());
  const auto needed = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(header.stored.bytes);
  const std::uint64_t data_start = start + length;
  const std::uint64_t present = source.size() - data_start;
  if (needed != present) {
    source.fail(data_start, fmt::format("{} elements of {} bytes need {} bytes, {} follow", count, header.stored.bytes,
                                        needed, present));
  }

  HostTensor tensor;
  tensor.dtype = header.stored.becomes;
  tensor.shape = header.shape;
  tensor.strides = dense_strides(header.shape, header.fortran_order);
  tensor.data = read_elements(source, data_start, count, header.stored);
  return tensor;
}

std::string_view descr_of(ScalarType type) {
  switch (type) {
    case ScalarType::f32:
      return "<f4";
    case ScalarType::f16:
      return "<f2";
    case ScalarType::bf16:
      return "<V2";
    case ScalarType::f64:
      return "<f8";
    case ScalarType::i32:
      return "<i4";
    case ScalarType::i64:
      return "<i8";
    case ScalarType::u8:
      return "|u1";
    case ScalarType::boolean:
      return "|b1";
  }
  throw InternalError("a tensor without an element type");
}

}  // namespace

HostTensor read_npy(const std::string& path) { return read_npy_from(*open_file(path)); }

HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  return read_npy_from(*view_memory(bytes, name));
}

std::vector<std::byte> print_npy(const HostTensor& tensor) {
  const HostTensor dense = dense_copy(tensor, tensor.dtype);
  std::string shape;
  for (std::int64_t extent : tensor.shape) shape += std::to_string(extent) + ", ";
  // NumPy prints (3,) and (2, 3): one element keeps its comma.
  if (tensor.shape.size() == 1) shape.pop_back();
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(tensor.dtype), shape);

  const std::size_t short_start = 10;
  const bool is_short = header.size() + 64 < 65536;
  const std::size_t start = is_short ? short_start : short_start + 2;
  // The data begins at a multiple of 64, and the header ends with a newline.
  header.append(63 - (start + header.size()) % 64, ' ');
  header += '\n';

  std::string prefix(kMagic);
  prefix += is_short ? '\1' : '\2';
  prefix += '\0';
  for (std::size_t i = 0; i < start - 8; ++i) prefix += static_cast<char>(header.size() >> (8 * i) & 0xff);
  const std::string all = prefix + header;
  std::vector<std::byte> bytes(all.size() + dense.data->size());
  std::memcpy(bytes.data(), all.data(), all.size());
  if (!dense.data->empty()) std::memcpy(bytes.data() + all.size(), dense.data->data(), dense.data->size());
  return bytes;
}

void write_npy(const std::string& path, const HostTensor& tensor) { write_file_atomically(path, print_npy(tensor)); }

}  // namespace astatide::runtime
