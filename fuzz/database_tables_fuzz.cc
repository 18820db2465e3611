// Table files of databases of any shape, with any key and value: read or refused. A part of a key gets into a query
// quoted and in no other way; more values than the limit are never given.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/map/database_table.h"
#include "lib/map/mongodb_filter.h"
#include "lib/map/utf8.h"

using namespace pen::map;

namespace {

/// Input is: type, key, value, and the file, each but the last up to a line end.
std::string_view line(std::string_view& rest) {
  const auto end = rest.find('\n');
  const auto taken = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return taken;
}

/// Replaces every byte by X, so that whatever else of the key gets into a query is seen.
bool quote(std::string_view part, std::string& out) {
  out.append(part.size(), 'X');
  return true;
}

/// Empties all strings that are values.
void empty_strings(nlohmann::json& in) {
  if (in.is_string()) in = "";
  if (in.is_structured())
    for (auto& one : in) empty_strings(one);
}

/// A filter in JSON has the same form whatever the key, and is JSON with every key or with none.
void check_filter(const KeyTemplate& filter, std::string_view key, std::string_view other) {
  const auto a = filter.expand(KeyParts(key), quote_in_filter), b = filter.expand(KeyParts(other), quote_in_filter);
  if (!a || !b) return;
  auto one = nlohmann::json::parse(*a, nullptr, false), two = nlohmann::json::parse(*b, nullptr, false);
  if (one.is_discarded() != two.is_discarded()) std::abort();
  empty_strings(one);
  empty_strings(two);
  if (one != two) std::abort();
}

void check(const database::Table& table, std::string_view key, std::string_view value) {
  const KeyParts parts(key);
  if (parts.qualified && std::string(parts.user) + "@" + std::string(parts.domain) != key) std::abort();
  for (const auto& [name, text] : table.templates) {
    const auto expanded = text.expand(parts, quote);
    if (expanded.has_value() != text.needs_of_query().met_by(parts)) std::abort();
    // Another key of the same form makes the same query, as none of its bytes is in it.
    std::string other(key);
    for (char& c : other)
      if (c != '@' && c != '.') c = 'k';
    if (expanded != text.expand(KeyParts(other), quote)) std::abort();
    if (table.type == "mongodb" && is_utf8(key)) check_filter(text, key, other);
  }
  if (table.needs.met_by(parts)) {
    for (const auto& [name, text] : table.templates)
      if (!text.expand(parts, quote)) std::abort();
  }
  database::Values values(table, key);
  std::size_t taken = 0;
  while (taken < 20 && values.add(value)) ++taken;
  const auto answer = std::move(values).take();
  if (answer && *answer && (*answer)->size() > kMaxValue) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string type(line(rest));
  const auto key = line(rest), value = line(rest);
  (void)is_utf8(key);
  // Tables of `domain` would be opened: the list is the part of other targets.
  if (!database::is_type(type) || rest.contains("domain")) return 0;
  const auto table = database::read_table(type, rest, "f", {});
  if (table) check(**table, key, value);
  return 0;
}
