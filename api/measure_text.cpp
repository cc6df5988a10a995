#include <nlohmann/json.hpp>

#include "api/measure.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

using Json = nlohmann::json;

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Read>
auto read_line(const std::string& line, const char* what, const Read& read) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    throw UserError(std::string("a line is no ") + what + ": " + quoted(line), {error.what()});
  }
}

}  // namespace

std::string to_line(const MeasureJob& job) {
  return line_of({{"algorithm", job.algorithm},
                  {"schedule", job.schedule},
                  {"against", job.against},
                  {"together", job.together},
                  {"device", job.device.kind == Device::Kind::cuda ? job.device.ordinal : -1},
                  {"dtype", name_of(job.dtype)},
                  {"extents", job.extents},
                  {"check_extents", job.check_extents},
                  {"seed", job.seed},
                  {"rounds", job.rounds},
                  {"threads", job.threads},
                  {"cache_directory", job.cache_directory}});
}

MeasureJob parse_measure_job(const std::string& line) {
  return read_line(line, "job to measure", [](const Json& json) {
    MeasureJob job;
    json.at("algorithm").get_to(job.algorithm);
    json.at("schedule").get_to(job.schedule);
    json.at("against").get_to(job.against);
    json.at("together").get_to(job.together);
    const int device = json.at("device").get<int>();
    job.device = device < 0 ? Device::cpu() : Device::cuda(device);
    const auto type = parse_scalar_type(json.at("dtype").get<std::string>());
    if (!type) throw UserError("a job to measure has no type");
    job.dtype = *type;
    json.at("extents").get_to(job.extents);
    json.at("check_extents").get_to(job.check_extents);
    json.at("seed").get_to(job.seed);
    json.at("rounds").get_to(job.rounds);
    json.at("threads").get_to(job.threads);
    json.at("cache_directory").get_to(job.cache_directory);
    return job;
  });
}

std::string to_line(const MeasureTurn& turn) { return line_of({{"turn", turn.schedule}}); }

std::string to_line(const MeasureAnswer& answer) {
  if (!answer.failure.empty()) return line_of({{"failure", answer.failure}, {"message", answer.message}});
  return line_of({{"samples_ms", answer.samples_ms},
                  {"against_ms", answer.against_ms},
                  {"registers", answer.registers},
                  {"spill_bytes", answer.spill_bytes},
                  {"shared_bytes", answer.shared_bytes},
                  {"method", answer.method}});
}

std::variant<MeasureTurn, MeasureAnswer> parse_measure_line(const std::string& line) {
  return read_line(line, "answer of a measurement", [](const Json& json) -> std::variant<MeasureTurn, MeasureAnswer> {
    if (json.contains("turn")) return MeasureTurn{json.at("turn").get<std::size_t>()};
    MeasureAnswer answer;
    if (json.contains("failure")) {
      json.at("failure").get_to(answer.failure);
      json.at("message").get_to(answer.message);
      return answer;
    }
    json.at("samples_ms").get_to(answer.samples_ms);
    json.at("against_ms").get_to(answer.against_ms);
    answer.registers = json.value("registers", 0);
    answer.spill_bytes = json.value("spill_bytes", 0);
    answer.shared_bytes = json.value("shared_bytes", 0);
    answer.method = json.value("method", "");
    return answer;
  });
}

}  // namespace astatide
