// Pictures hold the data that they are given, in proportion, and nothing outside of themselves.
#include "tools/plot/plot.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "tests/support/svg.h"
#include "tools/plot/axis.h"

using namespace astatide;
using namespace astatide::plot;
using namespace astatide::testing;
using Catch::Contains;

namespace {

const Labels kLabels{"Times of <all> & more", "length", "ms", "a machine \"of\" tests"};

Bars bars_of(std::vector<std::optional<double>> values) {
  Bars bars{kLabels, {}, {{"first", std::move(values)}}};
  for (std::size_t n = 0; n < bars.series[0].values.size(); ++n) bars.groups.push_back("group " + std::to_string(n));
  return bars;
}

std::vector<double> numbers_of(const std::vector<SvgElement>& elements, const std::string& name) {
  std::vector<double> out;
  for (const SvgElement& element : elements) out.push_back(element.number(name));
  return out;
}

}  // namespace

TEST_CASE("bars are as high as their values, from the same base") {
  const Svg svg = parse_svg(to_svg(bars_of({100.0, 50.0, std::nullopt, 12.5})));
  const std::vector<SvgElement> bars = svg.of_class("bar");
  REQUIRE(bars.size() == 3);
  const std::vector<double> heights = numbers_of(bars, "height");
  CHECK(heights[1] / heights[0] == Approx(0.5).epsilon(1e-3));
  CHECK(heights[2] / heights[0] == Approx(0.125).epsilon(1e-3));
  for (const SvgElement& bar : bars)
    CHECK(bar.number("y") + bar.number("height") == Approx(bars[0].number("y") + bars[0].number("height")));
  // What is left out leaves its place empty.
  CHECK(bars[2].number("x") - bars[1].number("x") == Approx(2 * (bars[1].number("x") - bars[0].number("x"))));
  for (const char* label : {"first", "group 0", "group 3", "ms", "length", "100", "12.5"}) CHECK(svg.has_text(label));
  CHECK(svg.has_text("Times of &lt;all&gt; &amp; more"));
  CHECK(svg.has_text("a machine &quot;of&quot; tests"));
  check_inside(svg);
}

TEST_CASE("points of a logarithmic picture are as far apart as their ratios") {
  Lines lines{kLabels, true, true, {{"one", {{512, 1}, {1024, 4}, {4096, 64}}, 0}, {"two", {{512, 2}}, 1}}};
  const Svg svg = parse_svg(to_svg(lines));
  const std::vector<SvgElement> series = svg.of_class("series");
  REQUIRE(series.size() == 1);  // a single point has no line
  const auto points = series[0].points();
  REQUIRE(points.size() == 3);
  CHECK((points[2].first - points[1].first) / (points[1].first - points[0].first) == Approx(2).epsilon(1e-3));
  CHECK((points[1].second - points[2].second) / (points[0].second - points[1].second) == Approx(2).epsilon(1e-3));
  CHECK(svg.of_class("marker").size() == 4 + 2);  // two of them in the legend
  for (const char* label : {"one", "two", "512", "4096"}) CHECK(svg.has_text(label));
  check_inside(svg);
}

TEST_CASE("a roofline has its ridge where bandwidth meets the rate, and dots at their place below it") {
  Roofline roofline{kLabels, 1000e12, 4e12, {{"memory", 25, 100e12}, {"products", 2500, 900e12}}};
  const Svg svg = parse_svg(to_svg(roofline));
  const std::vector<SvgElement> roof = svg.of_class("roof");
  REQUIRE(roof.size() == 2);
  const auto corners = roof[0].points();
  REQUIRE(corners.size() == 3);
  CHECK(corners[1].second == corners[2].second);
  const auto dots = svg.of_class("marker");
  REQUIRE(dots.size() == 2);
  // A tenth of the ridge's intensity at a tenth of its rate lies on the slope.
  const auto ridge = corners[1], low = corners[0];
  const double slope = (low.second - ridge.second) / (ridge.first - low.first);
  CHECK(dots[0].number("cy") == Approx(ridge.second + slope * (ridge.first - dots[0].number("cx"))).margin(0.1));
  for (const char* label : {"memory", "products", "ridge 250 FLOP/byte", "1000 TFLOP/s"}) CHECK(svg.has_text(label));
  check_inside(svg);
}

TEST_CASE("labels of dots at one place do not cover each other") {
  Roofline roofline{kLabels, 1000e12, 4e12, {}};
  for (int n = 0; n < 12; ++n) roofline.dots.push_back({"kernel number " + std::to_string(n), 100, 300e12});
  const Svg svg = parse_svg(to_svg(roofline));
  const std::vector<SvgElement> labels = svg.of_class("text label");
  REQUIRE(labels.size() == 12);
  for (std::size_t a = 0; a < labels.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const bool beside = std::abs(labels[a].number("x") - labels[b].number("x")) > 90;
      const bool below = std::abs(labels[a].number("y") - labels[b].number("y")) >= 11.9;
      INFO(a << " and " << b);
      CHECK((beside || below));
    }
  check_inside(svg);
}

TEST_CASE("cells have the colour of who wins, and none where nobody does") {
  Cells cells{kLabels, {"512", "1024"}, {"D=64", "D=128"}, {"a", "b", "never"}, {}};
  cells.cells = {{{0, "1.2x"}, {1, "1.1x"}}, {{std::nullopt, "none"}, {0, "2x"}}};
  const Svg svg = parse_svg(to_svg(cells));
  const std::vector<SvgElement> won = svg.of_class("won"), keys = svg.of_class("key");
  REQUIRE(won.size() == 3);
  REQUIRE(keys.size() == 2);
  CHECK(won[0].attribute("fill") == keys[0].attribute("fill"));
  CHECK(won[1].attribute("fill") == keys[1].attribute("fill"));
  CHECK(won[2].attribute("fill") == keys[0].attribute("fill"));
  CHECK(svg.of_class("none").size() == 1);
  CHECK_FALSE(svg.has_text("never"));
  for (const char* label : {"512", "D=128", "1.2x", "none"}) CHECK(svg.has_text(label));
  check_inside(svg);
}

TEST_CASE("no data, one point, equal values and huge ranges make pictures too") {
  for (const auto& values : std::vector<std::vector<std::optional<double>>>{
           {}, {3.0}, {0.0, 0.0}, {7.0, 7.0, 7.0}, {1e-12, 1e15}, {std::nullopt}}) {
    check_inside(parse_svg(to_svg(bars_of(values))));
    Lines lines{kLabels, true, true, {{"line", {}, 0}}};
    for (const auto& value : values)
      if (value && *value > 0) lines.series[0].points.emplace_back(1 + lines.series[0].points.size(), *value);
    check_inside(parse_svg(to_svg(lines)));
    Roofline roofline{kLabels, 1e15, 4e12, {}};
    for (const auto& [x, y] : lines.series[0].points) roofline.dots.push_back({"dot", y, 1e6 * y});
    check_inside(parse_svg(to_svg(roofline)));
  }
  check_inside(parse_svg(to_svg(Cells{kLabels, {}, {}, {}, {}})));
  CHECK(to_svg(bars_of({1.0, 2.0})) == to_svg(bars_of({1.0, 2.0})));
}

TEST_CASE("what no picture can show is refused") {
  CHECK_THROWS_AS(to_svg(bars_of({std::numeric_limits<double>::quiet_NaN()})), InternalError);
  CHECK_THROWS_AS(to_svg(bars_of({std::numeric_limits<double>::infinity()})), InternalError);
  CHECK_THROWS_AS(to_svg(Lines{kLabels, true, true, {{"line", {{0, 1}, {1, 1}}, 0}}}), InternalError);
  Bars many = bars_of({1.0});
  many.series.resize(kMostSeries + 1, many.series[0]);
  CHECK_THROWS_WITH(to_svg(many), Contains("13 series") && Contains("12 have colours"));
}

TEST_CASE("long names wrap in the legend and are cut where they are wider than the picture") {
  Bars bars = bars_of({1.0});
  bars.series[0].name = std::string(300, 'x');
  for (int n = 0; n < 11; ++n) bars.series.push_back({"schedules/of/a/folder/number_" + std::to_string(n), {1.0}});
  bars.groups[0] = std::string(200, 'g');
  bars.labels.title = std::string(200, 't');
  const Svg svg = parse_svg(to_svg(bars));
  check_inside(svg);
  const std::vector<SvgElement> texts = svg.of_class("text legend");
  for (std::size_t n = 1; n < texts.size(); ++n)
    if (texts[n].number("y") == texts[n - 1].number("y"))
      CHECK(texts[n].number("x") > texts[n - 1].number("x") + texts[n - 1].width());
}

TEST_CASE("ticks stand at nice values and cover the data") {
  CHECK(Axis::linear(93, 0, 1).ticks() == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(Axis::linear(0, 0, 1).ticks().back() == 1);
  CHECK(Axis::logarithmic(512, 16384, 0, 1).ticks() == std::vector<double>{512, 1024, 2048, 4096, 8192, 16384});
  CHECK(Axis::logarithmic(0.02, 300, 0, 1).least() == Approx(0.01));
  CHECK(Axis::logarithmic(0.02, 300, 0, 1).most() == Approx(1000));
  CHECK(Axis::logarithmic(1e-12, 1e15, 0, 1).ticks().size() <= 11);
  CHECK(tick_text(16384) == "16384");
  CHECK(tick_text(1e15) == "1P");
  CHECK(tick_text(0.25) == "0.25");
}
