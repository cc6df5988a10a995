#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/stored_type.h"
#include "runtime/tensor_file.h"

namespace astatide::runtime {
namespace {

using Json = nlohmann::ordered_json;

// A tensor takes about 100 bytes of header. The reference reader allows 100 MB, which as parsed JSON would fill the
// memory.
constexpr std::uint64_t kMostSafetensorsHeaderBytes = 16 << 20;
// {"name": {"shape": [2, 3]}}
constexpr int kMostNesting = 3;
constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kHeaderStart = 8;

constexpr KnownType kSafetensorsTypes[] = {
    {"F32", ScalarType::f32, 4, true},  {"F16", ScalarType::f16, 2, true}, {"BF16", ScalarType::bf16, 2, true},
    {"F64", ScalarType::f64, 8, true},  {"I64", ScalarType::i64, 8, true}, {"I32", ScalarType::i32, 4, true},
    {"I16", ScalarType::i32, 2, true},  {"I8", ScalarType::i32, 1, true},  {"U32", ScalarType::i64, 4, false},
    {"U16", ScalarType::i32, 2, false}, {"U8", ScalarType::u8, 1, false},  {"BOOL", ScalarType::boolean, 1, false},
};

// One tensor of the header, checked by itself.
struct Entry {
  std::string name;
  StoredType stored;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Json parse_header(const ByteSource& source, const std::string& text) {
  // A file may not say a name twice: readers that keep the first and readers that keep the last would see two files.
  std::vector<std::set<std::string>> keys;
  const auto observe = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= kMostNesting)
        source.fail(kHeaderStart, fmt::format("the header is nested deeper than {}", kMostNesting));
    }
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      source.fail(kHeaderStart, fmt::format("the header names {} twice", quote_for_message(value.get<std::string>())));
    }
    return true;
  };
  try {
    return Json::parse(text, observe);
  } catch (const Json::parse_error& error) {
    // nlohmann counts bytes from 1.
    const std::uint64_t at = kHeaderStart + (error.byte > 0 ? error.byte - 1 : 0);
    source.fail(at, "the header is no valid JSON");
  } catch (const Json::out_of_range&) {
    source.fail(kHeaderStart, "the header holds a number that no 64-bit type can");
  }
}

class EntryReader {
 public:
  EntryReader(const ByteSource& source, std::uint64_t data_bytes) : source_(source), data_bytes_(data_bytes) {}

  Entry read(const std::string& name, const Json& value) const {
    if (!value.is_object()) fail(name, "an object is expected");
    for (const auto& [key, ignored] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(name, fmt::format("unknown key {}", quote_for_message(key)));
    }
    Entry entry;
    entry.name = name;
    entry.stored = read_type(name, member(name, value, "dtype"));
    for (std::uint64_t extent : read_numbers(name, member(name, value, "shape"), "shape")) {
      if (extent > static_cast<std::uint64_t>(INT64_MAX))
        fail(name, fmt::format("the extent {} passes 2^63-1", extent));
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    if (entry.shape.size() > kMostAxes)
      fail(name, fmt::format("{} axes, the limit is {}", entry.shape.size(), kMostAxes));
    const auto offsets = read_numbers(name, member(name, value, "data_offsets"), "data_offsets");
    if (offsets.size() != 2) fail(name, fmt::format("data_offsets holds {} numbers, 2 are expected", offsets.size()));
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      fail(name,
           fmt::format("data_offsets [{}, {}] lie outside the {} bytes of data", entry.begin, entry.end, data_bytes_));
    }
    entry.count = checked_element_count(entry.shape, size_in_bytes(entry.stored.becomes),
                                        fmt::format("{}: tensor {}", source_.name(), quote_for_message(name)));
    const auto needed = static_cast<std::uint64_t>(entry.count) * static_cast<std::uint64_t>(entry.stored.bytes);
    if (needed != entry.end - entry.begin) {
      fail(name, fmt::format("{} elements of {} bytes need {} bytes, data_offsets [{}, {}] hold {}", entry.count,
                             entry.stored.bytes, needed, entry.begin, entry.end, entry.end - entry.begin));
    }
    return entry;
  }

  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    source_.fail(kHeaderStart, fmt::format("tensor {}: {}", quote_for_message(name), message));
  }

 private:
  const Json& member(const std::string& name, const Json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail(name, fmt::format("'{}' is missing", key));
    return *found;
  }

  StoredType read_type(const std::string& name, const Json& value) const {
    if (!value.is_string()) fail(name, "dtype is no string");
    const auto& text = value.get_ref<const std::string&>();
    for (const KnownType& known : kSafetensorsTypes) {
      if (known.name == text) return {known.becomes, known.bytes, known.is_signed, false};
    }
    std::string all;
    for (const KnownType& known : kSafetensorsTypes) all += fmt::format("{}{}", all.empty() ? "" : ", ", known.name);
    source_.fail(kHeaderStart,
                 fmt::format("tensor {}: elements of type {} aren't supported", quote_for_message(name),
                             quote_for_message(text)),
                 {all + " are"});
  }

  std::vector<std::uint64_t> read_numbers(const std::string& name, const Json& value, const char* key) const {
    if (!value.is_array()) fail(name, fmt::format("{} is no list", key));
    std::vector<std::uint64_t> numbers;
    for (const Json& item : value) {
      if (!item.is_number_unsigned())
        fail(name, fmt::format("{} holds something else than integers from 0 to 2^64-1", key));
      numbers.push_back(item.get<std::uint64_t>());
    }
    return numbers;
  }

  const ByteSource& source_;
  std::uint64_t data_bytes_;
};

// The format asks that tensors cover the data without overlap and without holes.
void check_cover(const ByteSource& source, const EntryReader& reader, const std::vector<Entry>& sorted,
                 std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const Entry& entry : sorted) {
    if (entry.begin < covered) {
      reader.fail(entry.name,
                  fmt::format("its bytes from {} on overlap another tensor's, which end at {}", entry.begin, covered));
    }
    if (entry.begin > covered) {
      reader.fail(entry.name, fmt::format("bytes {} to {} before it belong to no tensor", covered, entry.begin));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    source.fail(source.size() - (data_bytes - covered),
                fmt::format("{} bytes of data belong to no tensor", data_bytes - covered));
  }
}

SafetensorsFile read_safetensors_from(const ByteSource& source) {
  if (source.size() < kHeaderStart)
    source.fail(source.size(), "this is no .safetensors file: it ends before the header's length");
  const std::string length_text = source.read_text(0, kHeaderStart);
  std::uint64_t length = 0;
  std::memcpy(&length, length_text.data(), sizeof length);
  const std::uint64_t after = source.size() - kHeaderStart;
  if (length > after) source.fail(0, fmt::format("the header has {} bytes, {} follow", length, after));
  if (length > kMostSafetensorsHeaderBytes)
    source.fail(0, fmt::format("the header has {} bytes, the limit is {}", length, kMostSafetensorsHeaderBytes));

  const Json header = parse_header(source, source.read_text(kHeaderStart, length));
  if (!header.is_object()) source.fail(kHeaderStart, "the header is no JSON object");
  const std::uint64_t data_start = kHeaderStart + length;
  const std::uint64_t data_bytes = source.size() - data_start;
  const EntryReader reader(source, data_bytes);

  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) {
      entries.push_back(reader.read(name, value));
      continue;
    }
    if (!value.is_object()) reader.fail(name, "an object is expected");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) reader.fail(name, fmt::format("{} is no string", quote_for_message(key)));
      file.metadata[key] = text.get<std::string>();
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_cover(source, reader, entries, data_bytes);

  for (Entry& entry : entries) {
    NamedTensor named;
    named.name = entry.name;
    named.tensor.dtype = entry.stored.becomes;
    named.tensor.strides = dense_strides(entry.shape);
    named.tensor.shape = std::move(entry.shape);
    named.tensor.data = read_elements(source, data_start + entry.begin, entry.count, entry.stored);
    file.tensors.push_back(std::move(named));
  }
  return file;
}

std::string_view stored_name_of(ScalarType type) {
  for (const KnownType& known : kSafetensorsTypes) {
    if (known.becomes == type && known.bytes == size_in_bytes(type)) return known.name;
  }
  throw InternalError("a tensor without an element type");
}

}  // namespace

SafetensorsFile read_safetensors(const std::string& path) { return read_safetensors_from(*open_file(path)); }

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  return read_safetensors_from(*view_memory(bytes, name));
}

std::vector<std::byte> print_safetensors(const SafetensorsFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::vector<const NamedTensor*> ordered;
  for (const NamedTensor& named : file.tensors) {
    const bool taken = named.name == kMetadata || std::any_of(ordered.begin(), ordered.end(), [&](const auto* other) {
                         return other->name == named.name;
                       });
    if (taken)
      throw UserError(
          fmt::format("two entries of a .safetensors file can't both be called {}", quote_for_message(named.name)));
    ordered.push_back(&named);
  }
  // Wide elements first, as the reference writer does: with a header of a multiple of 8 bytes every tensor is aligned.
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return size_in_bytes(a->tensor.dtype) > size_in_bytes(b->tensor.dtype);
  });
  std::uint64_t end = 0;
  for (const NamedTensor* named : ordered) {
    const HostTensor& tensor = named->tensor;
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(tensor.element_count()) * static_cast<std::uint64_t>(size_in_bytes(tensor.dtype));
    header[named->name] = {
        {"dtype", stored_name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::type_error&) {
    throw UserError("a name in a .safetensors file must be valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');

  const std::uint64_t length = text.size();
  std::vector<std::byte> bytes(kHeaderStart + text.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + kHeaderStart, text.data(), text.size());
  bytes.reserve(bytes.size() + end);
  for (const NamedTensor* named : ordered) {
    const HostTensor dense = dense_copy(named->tensor, named->tensor.dtype);
    bytes.insert(bytes.end(), dense.data->begin(), dense.data->end());
  }
  return bytes;
}

void write_safetensors(const std::string& path, const SafetensorsFile& file) {
  write_file_atomically(path, print_safetensors(file));
}

}  // namespace astatide::runtime
