#include "runtime/nvrtc_facts.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "runtime/environment.h"

namespace astatide::runtime {
namespace {

constexpr const char* kFactsName = "nvrtc";

/// The key of the file that is loaded first, as long as no candidate before it is left to the loader's search path.
std::optional<std::string> library_key() {
  for (const std::string& candidate : nvrtc_candidates(read_environment())) {
    if (candidate.find('/') == std::string::npos) return std::nullopt;
    struct ::stat status {};
    if (::stat(candidate.c_str(), &status) != 0) continue;
    std::ostringstream identity;
    identity << status.st_dev << ' ' << status.st_ino << ' ' << status.st_size << ' ' << status.st_mtim.tv_sec << ' '
             << status.st_mtim.tv_nsec;
    CacheKeyBuilder key;
    key.add("nvrtc library", candidate).add("file", identity.str());
    return key.key();
  }
  return std::nullopt;
}

std::string print_facts(const NvrtcFacts& facts) {
  std::ostringstream text;
  text << facts.version.major << ' ' << facts.version.minor;
  for (const int architecture : facts.supported) text << ' ' << architecture;
  return text.str();
}

std::optional<NvrtcFacts> parse_facts(const std::string& text) {
  std::istringstream words(text);
  NvrtcFacts facts;
  words >> facts.version.major >> facts.version.minor;
  for (int architecture = 0; words >> architecture;) facts.supported.push_back(architecture);
  if (facts.version.major <= 0 || facts.supported.empty()) return std::nullopt;
  return facts;
}

}  // namespace

NvrtcFacts nvrtc_facts(DiskCache& disk) {
  if (const std::optional<std::string> key = library_key())
    if (const std::optional<CacheFiles> files = disk.find(*key))
      if (const std::string* text = find_file(*files, kFactsName))
        if (std::optional<NvrtcFacts> facts = parse_facts(*text)) return std::move(*facts);
  return {nvrtc().version(), nvrtc().supported_architectures()};
}

void keep_nvrtc_facts(DiskCache& disk, const NvrtcFacts& facts) {
  if (const std::optional<std::string> key = library_key()) disk.store(*key, {{kFactsName, print_facts(facts)}});
}

}  // namespace astatide::runtime
