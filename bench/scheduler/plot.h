#pragma once
/// Line charts as SVG, small enough to be kept with the documentation: at most 200 points a line.
///
/// Use:     Plot p; fill it; write the string that svg() returns.
/// Rules:   no external fonts, scripts or files; readable on white and on dark pages. The same data give the same
///          bytes.
#include <string>
#include <utility>
#include <vector>

namespace pen::simulation {

struct Plot {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x rising
  };
  struct Axis {
    std::string label;
    bool logarithmic = false;    // then only values above 0 are shown
    double least = 0, most = 0;  // equal: taken from the data
  };
  std::string title;
  Axis x, y;
  std::vector<Line> lines;  // at most six

  std::string svg() const;
};

}  // namespace pen::simulation
