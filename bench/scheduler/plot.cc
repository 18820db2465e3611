#include "bench/scheduler/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pen::simulation {

namespace {

constexpr double kWidth = 720, kHeight = 380;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 50;
constexpr std::size_t kPoints = 200;
// Distinguishable for people who see few colours: the dashes differ, too.
constexpr const char* kColours[] = {"#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#777777"};
constexpr const char* kDashes[] = {"6 3", "2 2", "9 3 2 3", "", "1 3", "4 4"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

struct Scale {
  double from = 0, to = 1, least = 0, most = 1;
  bool logarithmic = false;
  double at(double v) const {
    const double share = logarithmic ? std::log(v / least) / std::log(most / least) : (v - least) / (most - least);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
  std::vector<double> ticks() const {
    std::vector<double> out;
    if (logarithmic) {
      for (double t = std::pow(10, std::ceil(std::log10(least) - 1e-9)); t <= most * 1.0001; t *= 10) out.push_back(t);
      return out;
    }
    const double rough = (most - least) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7 ? 5 : 10);
    for (double t = std::ceil(least / step - 1e-9) * step; t <= most + step * 1e-6; t += step) out.push_back(t);
    return out;
  }
};

Scale scale(const Plot::Axis& axis, const std::vector<Plot::Line>& lines, bool second, double from, double to) {
  Scale s{from, to, axis.least, axis.most, axis.logarithmic};
  if (axis.least == axis.most) {
    bool any = false;
    for (const auto& line : lines) {
      for (const auto& [x, y] : line.points) {
        const double v = second ? y : x;
        if (axis.logarithmic && v <= 0) continue;
        s.least = any ? std::min(s.least, v) : v;
        s.most = any ? std::max(s.most, v) : v;
        any = true;
      }
    }
    if (!axis.logarithmic) s.least = std::min(0.0, s.least);
  }
  if (s.most <= s.least) s.most = s.least + (axis.logarithmic ? s.least : 1);
  return s;
}

}  // namespace

std::string Plot::svg() const {
  const Scale sx = scale(x, lines, false, kLeft, kWidth - kRight);
  const Scale sy = scale(y, lines, true, kHeight - kBottom, kTop);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  for (const double t : sx.ticks()) {
    out += fmt::format(
        "<path d=\"M{0:.1f} {1}V{2}\" stroke=\"#dddddd\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4:g}</text>\n",
        sx.at(t), kTop, kHeight - kBottom, kHeight - kBottom + 16, t);
  }
  for (const double t : sy.ticks()) {
    out += fmt::format(
        "<path d=\"M{1} {0:.1f}H{2}\" stroke=\"#dddddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g}</text>\n",
        sy.at(t), kLeft, kWidth - kRight, kLeft - 6, sy.at(t) + 4, t);
  }
  out += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n"
      "<text transform=\"translate(16 {:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 12, escaped(x.label), (kTop + kHeight - kBottom) / 2, escaped(y.label));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string path;
    const auto& points = lines[i].points;
    const std::size_t step = std::max<std::size_t>(1, (points.size() + kPoints - 1) / kPoints);
    for (std::size_t n = 0; n < points.size();
         n = n + 1 == points.size() ? n + 1 : std::min(n + step, points.size() - 1)) {
      const auto& [px, py] = points[n];
      if ((x.logarithmic && px <= 0) || (y.logarithmic && py <= 0)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", sx.at(px), sy.at(py));
    }
    const std::size_t look = i % std::size(kColours);
    const double ly = kTop + 12 + 16 * static_cast<double>(i);
    const double lx = kWidth - kRight - 300;
    out += fmt::format(
        "<path d=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{2}\"/>\n"
        "<path d=\"M{3} {4}h28\" stroke=\"{1}\" stroke-width=\"2\" stroke-dasharray=\"{2}\"/>"
        "<text x=\"{5}\" y=\"{6}\">{7}</text>\n",
        path, kColours[look], kDashes[look], lx, ly - 4, lx + 34, ly, escaped(lines[i].name));
  }
  return out + "</svg>\n";
}

}  // namespace pen::simulation
