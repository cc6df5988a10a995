// Looks into SVG that pictures are written as: elements of a line each, with their attributes and text.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace astatide::testing {

struct SvgElement {
  std::string name, text;
  std::map<std::string, std::string> attributes;
  double shift = 0;  // of the panel that it is in, downwards

  std::string attribute(const std::string& key) const {
    INFO("attribute " << key << " of " << name);
    REQUIRE(attributes.contains(key));
    return attributes.at(key);
  }
  double number(const std::string& key) const { return std::stod(attribute(key)); }
  std::vector<std::pair<double, double>> points() const {
    std::vector<std::pair<double, double>> out;
    std::istringstream in(attribute("points"));
    char comma = 0;
    for (double x = 0, y = 0; in >> x >> comma >> y;) out.emplace_back(x, y);
    return out;
  }
  /// Of a text, roughly as fonts have it.
  double width() const { return 0.5 * number("font-size") * static_cast<double>(text.size()); }
};

struct Svg {
  double width = 0, height = 0;
  std::vector<SvgElement> elements;
  std::string source;

  std::vector<SvgElement> of_class(const std::string& name) const {
    std::vector<SvgElement> out;
    for (const SvgElement& element : elements)
      if (const auto found = element.attributes.find("class"); found != element.attributes.end())
        if (found->second == name) out.push_back(element);
    return out;
  }
  bool has_text(const std::string& text) const {
    return std::any_of(elements.begin(), elements.end(),
                       [&](const SvgElement& element) { return element.name == "text" && element.text == text; });
  }
};

/// Fails the test where tags are not closed in their order.
inline Svg parse_svg(const std::string& source) {
  Svg svg;
  svg.source = source;
  static const std::regex tag(R"re(<(/?)([a-z]+)((?:\s+[A-Za-z0-9:-]+="[^"<]*")*)\s*(/?)>([^<]*))re");
  static const std::regex attribute(R"re(([A-Za-z0-9:-]+)="([^"]*)")re");
  std::vector<std::string> open;
  double shift = 0;
  std::size_t covered = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), tag), end; at != end; ++at) {
    const std::smatch& found = *at;
    covered += static_cast<std::size_t>(found.length());
    if (found[1].length() > 0) {
      REQUIRE_FALSE(open.empty());
      REQUIRE(open.back() == found[2]);
      open.pop_back();
      continue;
    }
    SvgElement element{found[2], found[5], {}, 0};
    const std::string attributes = found[3];
    for (std::sregex_iterator one(attributes.begin(), attributes.end(), attribute); one != end; ++one)
      element.attributes[(*one)[1]] = (*one)[2];
    if (element.name == "g") {
      const std::string transform = element.attribute("transform");
      shift = std::stod(transform.substr(std::string("translate(0 ").size()));
    }
    element.shift = shift;
    if (found[4].length() == 0) open.push_back(element.name);
    svg.elements.push_back(std::move(element));
  }
  CHECK(open.empty());
  // No byte is outside of what was understood.
  CHECK(covered == source.size());
  REQUIRE_FALSE(svg.elements.empty());
  svg.width = svg.elements[0].number("width");
  svg.height = svg.elements[0].number("height");
  return svg;
}

/// Every element lies in the view box, and every number is one.
inline void check_inside(const Svg& svg) {
  CHECK(svg.source.find("nan") == std::string::npos);
  CHECK(svg.source.find("inf") == std::string::npos);
  const auto inside = [&](const SvgElement& element, double x, double y) {
    INFO(element.name << " " << element.text << " at " << x << ", " << y + element.shift << " of " << svg.width << " x "
                      << svg.height);
    CHECK((x >= 0 && x <= svg.width && y + element.shift >= 0 && y + element.shift <= svg.height));
  };
  for (const SvgElement& element : svg.elements) {
    if (element.name == "rect") {
      inside(element, element.number("x"), element.number("y"));
      inside(element, element.number("x") + element.number("width"), element.number("y") + element.number("height"));
      CHECK((element.number("width") >= 0 && element.number("height") >= 0));
    } else if (element.name == "line") {
      inside(element, element.number("x1"), element.number("y1"));
      inside(element, element.number("x2"), element.number("y2"));
    } else if (element.name == "circle") {
      inside(element, element.number("cx"), element.number("cy"));
    } else if (element.name == "polyline" || element.name == "polygon") {
      for (const auto& [x, y] : element.points()) inside(element, x, y);
    } else if (element.name == "text") {
      const std::string anchor = element.attribute("text-anchor");
      const double x = element.number("x"), y = element.number("y"), width = element.width();
      if (element.attributes.contains("transform")) {
        inside(element, x, y - width / 2);
        inside(element, x, y + width / 2);
      } else {
        const double left = anchor == "start" ? x : anchor == "end" ? x - width : x - width / 2;
        inside(element, left, y);
        inside(element, left + width, y);
      }
    }
  }
}

}  // namespace astatide::testing
