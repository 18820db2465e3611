#pragma once
/// Line charts as SVG, small enough to be kept with the documentation: at most 200 points a line.
///
/// Use:     Plot p; fill it; write the string that svg() returns.
/// Rules:   no fonts, scripts or files from elsewhere; readable on white and on dark pages. Same data, same bytes.
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
    bool logarithmic = false;    // then only what is above 0 is shown
    double least = 0, most = 0;  // equal: from the data
  };
  std::string title;
  Axis x, y;
  std::vector<Line> lines;  // at most six

  std::string svg() const;
};

}  // namespace pen::simulation
