#include <catch2/catch.hpp>
#include <cctype>
#include <random>

#include "compiler/schedule/directives.h"
#include "tests/support/schedule_cases.h"

// Random schedule values survive both of their texts.

namespace astatide {
namespace {

class RandomSchedule {
 public:
  explicit RandomSchedule(std::uint64_t seed) : random_(seed) {}

  Schedule make() {
    ScheduleBuilder builder(known_targets()[below(known_targets().size())].name);
    const bool online = below(2) == 0;
    builder.rewrite(online ? RewriteMode::online : RewriteMode::none);
    if (online) add_rescale(builder);
    if (below(2) == 0) builder.name("schedule " + std::to_string(below(100)));
    for (const auto& [extent, value] : numbers(1, std::int64_t{1} << 40, below(3))) builder.bound(extent, value);
    if (below(3) == 0) builder.deterministic();
    if (below(4) == 0) {
      const auto consumers = static_cast<int>(between(1, 3));
      builder.warps(1, consumers, consumers > 1 && below(2) == 0);
    }
    const std::vector<std::string> owners = names(1 + below(6));
    for (const std::string& owner : owners)
      if (find_directive(owner) == nullptr) builder.place(placement(owner));
    return builder.build();
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  void add_rescale(ScheduleBuilder& builder) {
    const auto mode = static_cast<RescaleMode>(below(3));
    std::optional<int> grow, over;
    if (mode != RescaleMode::plain && below(2) == 0) grow = static_cast<int>(between(0, 50));
    if (mode == RescaleMode::optimistic && below(2) == 0) over = static_cast<int>(between(50, kMostRescale));
    builder.rescale(mode, grow, over);
  }

  /// Distinct names, among them words that YAML, C++ or the language of schedules could take for something else.
  std::vector<std::string> names(std::size_t count) {
    std::vector<std::string> pool = {"O", "S",  "P",     "K_1",     "y",   "n",  "yes", "no",       "on",    "off",
                                     "e", "e1", "x0",    "tile",    "O_",  "_a", "i",   "stage_at", "none",  "online",
                                     "j", "b",  "plain", "shared_", "Yes", "N",  "Sk",  "o",        "build", "place"};
    std::shuffle(pool.begin(), pool.end(), random_);
    pool.resize(count);
    return pool;
  }

  AxisNumbers numbers(std::int64_t least, std::int64_t most, std::size_t count) {
    AxisNumbers out;
    for (const std::string& name : names(count)) out.emplace_back(name, between(least, most));
    return out;
  }

  std::vector<LoopName> loops() {
    std::vector<LoopName> out = names(1 + below(5));
    for (LoopName& loop : out) loop += below(2) == 0 ? "" : below(4) == 0 ? ".i" : below(4) == 0 ? ".s" : ".o";
    return out;
  }

  PlacementBuilder placement(const std::string& owner) {
    std::vector<const DirectiveInfo*> kinds;
    for (const DirectiveInfo& info : directive_table())
      if (info.kind) kinds.push_back(&info);
    std::shuffle(kinds.begin(), kinds.end(), random_);
    kinds.resize(1 + below(kinds.size()));
    PlacementBuilder out(owner);
    for (const DirectiveInfo* info : kinds) add(out, *info);
    return out;
  }

  void add(PlacementBuilder& out, const DirectiveInfo& info) {
    const std::size_t count = 1 + below(3);
    const int number = static_cast<int>(
        info.power_of_two ? std::int64_t{1} << below(7)
                          : between(std::max<std::int64_t>(info.least, 1), std::max<std::int64_t>(info.most, 1)));
    switch (*info.kind) {
      case DirectiveKind::split: {
        const std::vector<std::string> axes = names(3);
        out.split({{axes[0], {axes[1], axes[2]}}});
        break;
      }
      case DirectiveKind::fuse: {
        std::vector<std::string> axes = names(4);
        const std::string fused = axes.back();
        axes.pop_back();
        out.fuse({{fused, axes}});
        break;
      }
      case DirectiveKind::tile:
        out.tile(numbers(info.least, info.most, count));
        break;
      case DirectiveKind::reorder:
        out.reorder(loops());
        break;
      case DirectiveKind::descending:
        out.descending(loops());
        break;
      case DirectiveKind::rfactor: {
        const std::string axis = names(1)[0];
        switch (below(3)) {
          case 0:
            out.rfactor(axis, axis + ".s", number);
            break;
          case 1:
            out.rfactor({axis, axis + ".s", 0, between(1, 1 << 20)});
            break;
          default:
            out.rfactor({axis, axis + ".s"});
        }
        break;
      }
      case DirectiveKind::merge:
        out.merge(static_cast<MergeBy>(below(2)));
        break;
      case DirectiveKind::gpu_blocks:
        out.gpu_blocks(loops());
        break;
      case DirectiveKind::cluster:
        out.cluster(1 << between(1, 2));
        break;
      case DirectiveKind::parallel:
        out.parallel(loops());
        break;
      case DirectiveKind::threads:
        out.threads(number, static_cast<int>(between(1, 1024)));
        break;
      case DirectiveKind::persistent:
        out.persistent(static_cast<TileOrder>(below(2)));
        break;
      case DirectiveKind::compute_at:
        out.compute_at(loops()[0]);
        break;
      case DirectiveKind::compute_root:
        out.compute_root();
        break;
      case DirectiveKind::store_in:
        if (below(4) == 0)
          out.store_in({Space::shared, Space::register_file});
        else
          out.store_in(static_cast<Space>(below(3)));
        break;
      case DirectiveKind::stage_at:
        out.stage_at(loops()[0]);
        break;
      case DirectiveKind::ring_buffer:
        out.ring_buffer(number);
        break;
      case DirectiveKind::copy:
        out.copy(static_cast<CopyPath>(below(3)));
        break;
      case DirectiveKind::mma:
        out.mma(static_cast<Family>(1 + below(3)));
        break;
      case DirectiveKind::tf32:
        out.tf32();
        break;
      case DirectiveKind::vectorize:
        out.vectorize(number);
        break;
      case DirectiveKind::unroll:
        out.unroll(numbers(info.least, info.most, count));
        break;
      case DirectiveKind::align_storage:
        out.align_storage(numbers(info.least, info.most, count));
        break;
      case DirectiveKind::overlap: {
        const auto whole = static_cast<int>(between(info.least, info.most));
        out.overlap(static_cast<int>(between(0, whole)), whole);
        break;
      }
      case DirectiveKind::exp2: {
        const auto whole = static_cast<int>(between(info.least, info.most));
        out.exp2(static_cast<int>(between(1, whole)), whole);
        break;
      }
    }
  }

  std::mt19937_64 random_;
};

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
      if (call == "warps") {
        const int producer = static_cast<int>(integer());
        expect(",");
        const int consumer = static_cast<int>(integer());
        const bool alternate = !next_is(')');
        if (alternate) expect(", true");
        builder.warps(producer, consumer, alternate);
      }
      if (call == "deterministic") builder.deterministic();
      if (call == "place") builder.place(placement());
      expect(")");
    }
    expect(");");
    return builder.build();
  }

 private:
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

constexpr std::uint64_t kRandomSchedules = 500;

TEST_CASE("a schedule printed as YAML is read as an equal one, whose text is the same") {
  for (std::uint64_t seed = 0; seed < kRandomSchedules; ++seed) {
    const Schedule schedule = RandomSchedule(seed).make();
    const std::string text = print_schedule(schedule);
    INFO("seed " << seed << "\n" << text);
    const Schedule again = parse_schedule(text, "printed.yaml");
    REQUIRE(equal(schedule, again));
    REQUIRE(print_schedule(again) == text);
  }
}

TEST_CASE("a schedule printed as C++ builds an equal one, of the same name") {
  for (std::uint64_t seed = 0; seed < kRandomSchedules; ++seed) {
    const Schedule schedule = RandomSchedule(seed).make();
    const std::string text = print_schedule_as_cpp(schedule);
    INFO("seed " << seed << "\n" << text);
    const Schedule again = CppReader(text).read();
    REQUIRE(equal(schedule, again));
    REQUIRE(again.name == schedule.name);
  }
}

TEST_CASE("shipped schedules survive both of their texts") {
  for (const std::string& name : testing::shipped_schedule_names()) {
    INFO(name);
    const Schedule schedule = parse_schedule(testing::shipped_schedule(name), name + ".yaml");
    CHECK(equal(schedule, parse_schedule(print_schedule(schedule), "printed.yaml")));
    CHECK(equal(schedule, CppReader(print_schedule_as_cpp(schedule)).read()));
  }
}

}  // namespace
}  // namespace astatide
