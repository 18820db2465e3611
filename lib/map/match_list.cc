#include "lib/map/match_list.h"

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/map/file_map.h"

namespace pen::map {
namespace {

constexpr unsigned kMaxFileDepth = 10;
constexpr std::size_t kMaxItems = 1'000'000;

}  // namespace

Result<MatchList> MatchList::open(Kind kind, std::string_view value, const Options& options) {
  MatchList list;
  (void)declared(options.open.setting);  // as in MapList::open()
  list.kind_ = kind;
  list.options_ = options;
  PEN_TRY(list.add(value, false, 0));
  return list;
}

Result<void> MatchList::add(std::string_view value, bool negated_outside, unsigned depth) {
  for (const auto& word : split_list(value)) {
    if (items_.size() >= kMaxItems) return fail(MapError::too_large, "list");
    std::string_view text = word;
    Item item;
    item.negated = negated_outside;
    while (text.starts_with('!')) {
      item.negated = !item.negated;
      text.remove_prefix(1);
    }
    if (text.empty()) return fail(MapError::syntax, "! without a pattern");
    if (text.front() == '/') {
      if (depth >= kMaxFileDepth) return fail(MapError::syntax, std::string(text) + ": files nested too deeply");
      PEN_TRY_ASSIGN(const std::string content, read_table_file(std::string(text)));
      std::string patterns;
      std::string_view rest = content;
      while (!rest.empty()) {
        const auto end = rest.find('\n');
        const std::string_view line = trim(rest.substr(0, end));
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        if (line.starts_with('#')) continue;
        patterns += line;
        patterns += '\n';
      }
      PEN_TRY(add(patterns, item.negated, depth + 1));
      continue;
    }
    item.text = idn::fold(text);
    const bool addresses = kind_ == Kind::network || kind_ == Kind::host;
    const bool looks_numeric = text.front() == '[' || parse_ip(text.substr(0, text.find('/'))).has_value();
    const auto read_network = [&]() -> Result<void> {
      auto read = parse_network(text);
      if (!read && !options_.keep_faulty) return std::unexpected(std::move(read).error());
      if (read)
        item.network = *read;
      else
        item.fault = read.error().message();
      item.is_network = true;
      return {};
    };
    if (addresses && looks_numeric) {
      PEN_TRY(read_network());
    } else if (text.find(':') != std::string_view::npos && text.front() != '[') {
      auto maps = MapList::open(text, options_.open);
      if (!maps) return std::unexpected(std::move(maps).error());
      item.table = maps->maps().front();
    } else if (addresses && text.find('/') != std::string_view::npos) {
      PEN_TRY(read_network());  // its error says what is wrong
    }
    items_.push_back(std::move(item));
  }
  return {};
}

MatchList::Name::Name(std::string_view text) : folded(idn::fold(text)), others(idn::other_forms(text)) {
  for (std::string& other : others) other = idn::fold(other);
}

Result<bool> MatchList::Item::matches_name(const Name& name, Kind kind, bool parent_domains) const {
  const bool parents = kind == Kind::domain || kind == Kind::host;
  if (table) {
    std::string_view key = name.folded;
    bool first = true;
    while (!key.empty()) {
      if (first || !table->whole_key_only()) {
        auto value = table->lookup(key);
        if (!value) return std::unexpected(std::move(value).error().within(table->name()));
        if (*value) return true;
      }
      first = false;
      const auto dot = key.find('.', 1);
      if (!parents || dot == std::string_view::npos || key.front() == '[') break;
      key = key.substr(parent_domains ? dot + 1 : dot);
    }
    return false;
  }
  if (is_network) return false;
  return is_text_of(name.folded, parents, parent_domains) ||
         std::ranges::any_of(name.others,
                             [&](const std::string& other) { return is_text_of(other, parents, parent_domains); });
}

bool MatchList::Item::is_text_of(std::string_view name, bool parents, bool parent_domains) const {
  if (name == text) return true;
  if (!parents || name.size() <= text.size() || !name.ends_with(text)) return false;
  if (text.front() == '.') return !parent_domains;
  return parent_domains && name[name.size() - text.size() - 1] == '.';
}

Result<bool> MatchList::Item::matches_address(const IpAddress& address, const std::string& text_in) const {
  if (table) {
    auto value = table->lookup(text_in);
    if (!value) return std::unexpected(std::move(value).error().within(table->name()));
    return value->has_value();
  }
  // Postfix reads a pattern only for clients of its family.
  if (!fault.empty() && text.contains(':') == (address.size == 16)) return fail(MapError::syntax, fault);
  return is_network && fault.empty() && network.contains(address);
}

Result<bool> MatchList::matches(std::string_view text) const {
  if (items_.empty()) return false;
  const Name name(text);
  if (name.folded.empty()) return false;
  for (const auto& item : items_) {
    PEN_TRY_ASSIGN(const bool hit, item.matches_name(name, kind_, options_.parent_domains));
    if (hit) return !item.negated;
  }
  return false;
}
Result<bool> MatchList::matches_address(std::string_view address) const { return matches_host("unknown", address); }
Result<bool> MatchList::matches_host(std::string_view name_in, std::string_view address) const {
  if (items_.empty()) return false;
  const Name name(kind_ == Kind::host && !iequals(name_in, "unknown") ? name_in : std::string_view());
  const bool use_name = !name.folded.empty();
  const auto ip = parse_ip(address);
  const std::string ip_text = ip ? ip->text() : std::string();
  for (const auto& item : items_) {
    bool hit = false;
    if (use_name) {
      PEN_TRY_ASSIGN(hit, item.matches_name(name, kind_, options_.parent_domains));
    }
    if (!hit && ip) {
      PEN_TRY_ASSIGN(hit, item.matches_address(*ip, ip_text));
    }
    if (hit) return !item.negated;
  }
  return false;
}
std::vector<std::string> MatchList::faults() const {
  std::vector<std::string> all;
  for (const Item& item : items_)
    if (!item.fault.empty()) all.push_back(item.fault);
  return all;
}

bool MatchList::has_tables() const {
  return std::ranges::any_of(items_, [](const Item& i) { return i.table != nullptr; });
}

bool MatchList::blocking() const {
  return std::ranges::any_of(items_, [](const Item& i) { return i.table && i.table->blocking(); });
}

}  // namespace pen::map
