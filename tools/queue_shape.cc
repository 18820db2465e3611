#include "tools/queue_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"

namespace pen::tools {

namespace {
constexpr std::string_view kNullSender = "MAILER-DAEMON";

/// The sender's domain; an address without domain is listed under its own name.
std::string_view domain_of(std::string_view address) {
  const auto at = address.rfind('@');
  return at == std::string_view::npos ? address : address.substr(at + 1);
}

/// ".b.c" for "a.b.c" and for ".a.b.c"; empty: the rest would be a top-level domain, or nothing.
std::string parent_of(std::string_view domain) {
  if (domain.starts_with('.')) domain.remove_prefix(1);
  const auto dot = domain.find('.');
  if (dot == std::string_view::npos || domain.find('.', dot + 1) == std::string_view::npos) return {};
  return std::string(domain.substr(dot));
}

/// Cuts the beginning of a name that is too long, and marks the cut.
std::string cut(const std::string& name, std::size_t width) {
  if (name.size() <= width) return name;
  const std::string sign = name.starts_with('.') ? ".+" : "+";
  return sign + name.substr(name.size() - (width - sign.size()));
}
}  // namespace

std::vector<minutes> shape_ages(minutes first, std::size_t columns, bool linear) {
  std::vector<minutes> ages;
  for (minutes age = first; ages.size() < columns; age = linear ? age + first : age * 2) ages.push_back(age);
  return ages;
}

Shape::Shape(Options options, WallTime now) : options_(std::move(options)), now_(now) {}

void Shape::count(Row& row, std::size_t column) const {
  row.by_age.resize(options_.ages.size() + 1);
  ++row.total;
  ++row.by_age[column];
}

void Shape::add(const ipc::queue::Entry& entry) {
  // In minutes, as the columns: the last columns begin later than nanoseconds can count.
  const auto age = std::chrono::floor<minutes>(now_ - entry.arrival);
  const auto column = static_cast<std::size_t>(std::upper_bound(options_.ages.begin(), options_.ages.end(), age) -
                                               options_.ages.begin());
  if (options_.by_sender) {
    add_to(entry.sender.empty() ? std::string(kNullSender) : to_lower(domain_of(entry.sender)), column);
  } else {
    for (const std::string& domain : entry.domains) add_to(to_lower(domain), column);
  }
}

void Shape::add_to(std::string domain, std::size_t column) {
  count(totals_, column);
  bool fresh = false;  // the row below is new
  do {
    auto [row, added] = rows_.try_emplace(domain);
    count(row->second, column);
    if (fresh) ++row->second.subdomains;
    fresh = added;
    domain = options_.parents == 0 ? std::string() : parent_of(domain);
  } while (!domain.empty());
}

std::vector<Shape::Rows::const_iterator> Shape::sorted() const {
  std::vector<Rows::const_iterator> rows;
  rows.reserve(rows_.size());
  for (auto row = rows_.begin(); row != rows_.end(); ++row)
    if (!row->first.starts_with('.') || row->second.subdomains >= options_.parents) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a->second.total != b->second.total ? a->second.total > b->second.total : a->first < b->first;
  });
  if (options_.rows != 0 && rows.size() > options_.rows) rows.resize(options_.rows);
  return rows;
}

std::string Shape::table() const {
  Row totals = totals_;
  totals.by_age.resize(options_.ages.size() + 1);
  std::vector<std::string> heads;
  for (const minutes age : options_.ages) heads.push_back(std::to_string(age.count()));
  heads.push_back((heads.empty() ? "0" : heads.back()) + "+");
  const auto width = [](const std::string& head, std::uint64_t most) {
    return std::max(head.size(), std::to_string(most).size());
  };
  const auto rows = sorted();
  std::size_t name_width = 40;
  if (options_.width == 0) {
    for (const auto& row : rows) name_width = std::max(name_width, readable(row->first).size());
  } else {
    constexpr std::size_t kLeast = 18;  // of a name
    std::size_t numbers = width("T", totals.total) + 1;
    for (std::size_t i = 0; i < heads.size(); ++i) numbers += width(heads[i], totals.by_age[i]) + 1;
    name_width = std::max(kLeast, options_.width - std::min(options_.width, numbers));
  }
  const auto line = [&](std::string_view name, const std::string& total, auto cell) {
    std::string out = fmt::format("{:>{}} {:>{}}", name, name_width, total, width("T", totals.total));
    for (std::size_t i = 0; i < heads.size(); ++i)
      out += fmt::format(" {:>{}}", cell(i), width(heads[i], totals.by_age[i]));
    return out + "\n";
  };
  std::string out = line("", "T", [&](std::size_t i) { return heads[i]; });
  out += line("TOTAL", std::to_string(totals.total), [&](std::size_t i) { return std::to_string(totals.by_age[i]); });
  for (const auto& row : rows)
    out += line(cut(readable(row->first), name_width), std::to_string(row->second.total),
                [&](std::size_t i) { return std::to_string(row->second.by_age[i]); });
  return out;
}

std::string Shape::json() const {
  std::string out;
  for (const auto& row : sorted()) {
    nlohmann::ordered_json j;
    j["domain"] = row->first;
    j["messages"] = row->second.total;
    j["ages"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < row->second.by_age.size(); ++i) {
      nlohmann::ordered_json age;
      age["minutes"] =
          i < options_.ages.size() ? nlohmann::ordered_json(options_.ages[i].count()) : nlohmann::ordered_json(nullptr);
      age["messages"] = row->second.by_age[i];
      j["ages"].push_back(std::move(age));
    }
    out += j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return out;
}

}  // namespace pen::tools
