#pragma once

#include <catch2/catch.hpp>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule.h"

namespace astatide {

/// Reads the C++ text of a schedule: calls chained on two builders, with strings, integers, enumerators and braces.
class CppReader {
 public:
  explicit CppReader(const std::string& text) : text_(text) {}

  Schedule read() {
    expect("Schedule schedule = ScheduleBuilder(");
    ScheduleBuilder builder(string());
    expect(")");
    while (true) {
      expect(".");
      const std::string call = word();
      expect("(");
      if (call == "build") break;
      if (call == "name") builder.name(string());
      if (call == "rewrite")
        builder.rewrite(enumerator() == "RewriteMode::none" ? RewriteMode::none : RewriteMode::online);
      if (call == "rescale") rescale(builder);
      if (call == "bound") {
        const std::string extent = string();
        expect(",");
        builder.bound(extent, integer());
      }
      if (call == "known") {
        std::vector<std::string> extents;
        expect("{");
        do extents.push_back(string());
        while (next_is(',') && (expect(","), true));
        expect("}");
        builder.known(std::move(extents));
      }
      if (call == "warps") {
        const int producer = static_cast<int>(integer());
        expect(",");
        const int consumer = static_cast<int>(integer());
        const bool alternate = !next_is(')');
        if (alternate) expect(", true");
        builder.warps(producer, consumer, alternate);
      }
      if (call == "serves") builder.serves(service());
      if (call == "deterministic") builder.deterministic();
      if (call == "fast_math") builder.fast_math();
      if (call == "dependent_launch") builder.dependent_launch();
      if (call == "place") builder.place(placement());
      expect(")");
    }
    expect(");");
    return builder.build();
  }

 private:
  /// {{ScalarType::f16}, {{"i", 1, 16}, {"j", 1024}}, 2}
  Serves service() {
    Serves out;
    expect("{{");
    while (!next_is('}')) {
      if (!out.dtypes.empty()) expect(",");
      const std::string type = enumerator();
      out.dtypes.push_back(*parse_scalar_type(type.substr(type.rfind(':') + 1)));
    }
    expect("}, {");
    while (!next_is('}')) {
      if (!out.lengths.empty()) expect(",");
      expect("{");
      LengthRange range{string()};
      expect(",");
      range.least = integer();
      if (!next_is('}')) {
        expect(",");
        range.most = integer();
      }
      expect("}");
      out.lengths.push_back(range);
    }
    expect("},");
    out.rank = static_cast<int>(integer());
    expect("}");
    return out;
  }

  void rescale(ScheduleBuilder& builder) {
    const std::string mode = enumerator();
    std::optional<int> numbers[2];
    for (std::optional<int>& number : numbers) {
      if (next_is(')')) break;
      expect(",");
      skip_space();
      if (std::isdigit(static_cast<unsigned char>(text_[at_])))
        number = static_cast<int>(integer());
      else
        expect("std::nullopt");
    }
    builder.rescale(mode == "RescaleMode::lazy"         ? RescaleMode::lazy
                    : mode == "RescaleMode::optimistic" ? RescaleMode::optimistic
                                                        : RescaleMode::plain,
                    numbers[0], numbers[1]);
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool next_is(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  void expect(const std::string& wanted) {
    for (const char c : wanted) {
      if (c == ' ') continue;
      if (!next_is(c)) FAIL("wanted " << wanted << " at " << text_.substr(at_, 20));
      ++at_;
    }
  }
  std::string word() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string enumerator() {
    std::string name = word();
    expect("::");
    return name + "::" + word();
  }
  std::string string() {
    expect("\"");
    const std::size_t end = text_.find('"', at_);
    std::string out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }
  std::int64_t integer() {
    skip_space();
    std::size_t length = 0;
    const std::int64_t value = std::stoll(text_.substr(at_), &length);
    at_ += length;
    return value;
  }

  AxisNumbers axis_numbers() {
    AxisNumbers out;
    expect("{");
    while (!next_is('}')) {
      expect("{");
      const std::string axis = string();
      expect(",");
      out.emplace_back(axis, integer());
      expect("}");
      if (next_is(',')) expect(",");
    }
    expect("}");
    return out;
  }
  AxisParts axis_parts() {
    const bool braced = next_is('A');
    if (braced) expect("AxisParts{");
    AxisParts out;
    out.axis = string();
    expect(",");
    out.loop = string();
    expect(",");
    out.parts = integer();
    if (!braced) return out;
    expect(",");
    out.size = integer();
    if (next_is(',')) {
      expect(",");
      out.team_loop = string();
      expect(",");
      out.teams = integer();
    }
    expect("}");
    return out;
  }
  std::vector<LoopName> loops() {
    std::vector<LoopName> out;
    expect("{");
    while (!next_is('}')) {
      out.push_back(string());
      if (next_is(',')) expect(",");
    }
    expect("}");
    return out;
  }

  Space space() {
    const std::string name = enumerator();
    return name == "Space::global" ? Space::global : name == "Space::shared" ? Space::shared : Space::register_file;
  }

  PlacementBuilder placement() {
    expect("PlacementBuilder(");
    PlacementBuilder out(string());
    expect(")");
    while (next_is('.')) {
      expect(".");
      const std::string call = word();
      expect("(");
      add(out, call);
      expect(")");
    }
    return out;
  }

  AxisLists axis_lists() {
    AxisLists out;
    expect("{");
    while (!next_is('}')) {
      expect("{");
      const std::string axis = string();
      expect(",");
      out.emplace_back(axis, loops());
      expect("}");
      if (next_is(',')) expect(",");
    }
    expect("}");
    return out;
  }

  void add(PlacementBuilder& out, const std::string& call) {
    if (call == "split") {
      out.split(axis_lists());
    } else if (call == "fuse") {
      out.fuse(axis_lists());
    } else if (call == "tile") {
      out.tile(axis_numbers());
    } else if (call == "reorder") {
      out.reorder(loops());
    } else if (call == "descending") {
      out.descending(loops());
    } else if (call == "rfactor") {
      out.rfactor(axis_parts());
    } else if (call == "merge") {
      out.merge(enumerator() == "MergeBy::last_block" ? MergeBy::last_block : MergeBy::kernel);
    } else if (call == "gpu_blocks") {
      out.gpu_blocks(loops());
    } else if (call == "cluster") {
      out.cluster(static_cast<int>(integer()));
    } else if (call == "parallel") {
      out.parallel(loops());
    } else if (call == "threads") {
      const int rows = static_cast<int>(integer());
      expect(",");
      out.threads(rows, static_cast<int>(integer()));
    } else if (call == "persistent") {
      out.persistent(enumerator() == "TileOrder::linear" ? TileOrder::linear : TileOrder::longest_first);
    } else if (call == "compute_at") {
      out.compute_at(string());
    } else if (call == "compute_root") {
      out.compute_root();
    } else if (call == "store_in" && next_is('{')) {
      expect("{");
      std::vector<Space> both{space()};
      expect(",");
      both.push_back(space());
      expect("}");
      out.store_in(both);
    } else if (call == "store_in") {
      out.store_in(space());
    } else if (call == "stage_at") {
      out.stage_at(string());
    } else if (call == "ring_buffer") {
      out.ring_buffer(static_cast<int>(integer()));
    } else if (call == "copy") {
      const std::string path = enumerator();
      out.copy(path == "CopyPath::tma"        ? CopyPath::tma
               : path == "CopyPath::cp_async" ? CopyPath::cp_async
                                              : CopyPath::vector);
    } else if (call == "mma") {
      const std::string family = enumerator();
      out.mma(family == "Family::wgmma"      ? Family::wgmma
              : family == "Family::mma_sync" ? Family::mma_sync
                                             : Family::fma);
    } else if (call == "mask_map") {
      out.mask_map();
    } else if (call == "tf32") {
      out.tf32();
    } else if (call == "vectorize") {
      out.vectorize(static_cast<int>(integer()));
    } else if (call == "unroll") {
      out.unroll(axis_numbers());
    } else if (call == "align_storage") {
      out.align_storage(axis_numbers());
    } else if (call == "overlap") {
      const auto part = static_cast<int>(integer());
      expect(",");
      out.overlap(part, static_cast<int>(integer()));
    } else if (call == "exp2") {
      const auto part = static_cast<int>(integer());
      expect(",");
      out.exp2(part, static_cast<int>(integer()));
    } else {
      FAIL("no builder has the call " << call);
    }
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace astatide
