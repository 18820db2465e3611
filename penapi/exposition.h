#pragma once
/// Writes figures in the text format of Prometheus, version 0.0.4.
///
/// Use:     Exposition out;  out.family("penstock_x_total", "Help.", "counter");
///          out.sample("penstock_x_total", {{"a", "b"}}, 3);
/// Pure.
/// Source:  Prometheus, "Exposition formats": escaping, order of lines, histograms with cumulative buckets.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/metrics/page.h"
#include "penapi/survey.h"

namespace pen::api {

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;
  /// Begins a family: its HELP and TYPE lines; type: "counter", "gauge", "histogram", "untyped". Samples follow.
  void family(std::string_view name, std::string_view help, std::string_view type);
  /// A line. Labels are escaped here; an empty list is left out.
  void sample(std::string_view name, const Labels& labels, std::uint64_t value);
  void sample(std::string_view name, const Labels& labels, double value);
  /// counts: one for each bound, and one above all; not cumulative. bounds: as they are shown.
  void histogram(std::string_view name, const Labels& labels, std::span<const double> bounds,
                 std::span<const std::uint64_t> counts, double sum);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// All counters and histograms of metrics.def, then the figures of the survey.
void write_counts(Exposition& out, const metrics::Sums& sums);
void write_states(Exposition& out, const Seen& seen, WallTime now);
/// The same figures, as far as there are such, under the names of Debian's prometheus-postfix-exporter (compat.cc).
void write_as_postfix(Exposition& out, const metrics::Sums& sums, const Seen& seen);

/// The value of one series; several labels: by the numbers of their values.
std::uint64_t count_of(const metrics::Sums& sums, metrics::Id id, std::initializer_list<std::size_t> labels = {});

}  // namespace pen::api
