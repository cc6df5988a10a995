#include <catch2/catch.hpp>
#include <random>

#include "compiler/schedule/directives.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_cpp_reader.h"

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
    if (below(3) == 0) builder.known(names(1 + below(3)));
    if (below(3) == 0) builder.serves(service());
    if (below(3) == 0) builder.deterministic();
    if (below(3) == 0) builder.fast_math();
    if (below(3) == 0) builder.dependent_launch();
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

  Serves service() {
    Serves out;
    for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16})
      if (below(2) == 0) out.dtypes.push_back(type);
    for (const std::string& axis : names(below(3))) {
      const std::int64_t least = between(0, 1000);
      const std::int64_t most[] = {least, least + between(1, 1000), LengthRange::kUnlimited};
      out.lengths.push_back({axis, least, most[below(3)]});
    }
    out.rank = static_cast<int>(below(3) == 0 ? 0 : between(0, kMostRank));
    return out;
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
      case DirectiveKind::mask_map:
        out.mask_map();
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
