#include <algorithm>
#include <set>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/map/table_text.h"
#include "lib/resolve/tables.h"

namespace pen::resolve {
namespace {

// Stops a loop like a → b → a; an honest chain has a handful of rewrites.
constexpr unsigned kMaxCanonicalSteps = 100;

std::string with_extension(std::string_view address, const map::AddressHit& hit) {
  const auto at = mail::at_sign(address);
  std::string local = mail::unquote_local(address.substr(0, at));
  local += hit.delimiter;
  local += hit.extension;
  std::string out = mail::quote_local(local);
  if (at != std::string_view::npos) out += address.substr(at);
  return out;
}

/// Splits an item with blanks in place of commas: "x@a y@b" are two addresses, as in Postfix. Text before <address> is
/// a name.
void add_addresses(std::string_view item, std::vector<std::string>& out) {
  const auto joins = [](char c) { return c == '@' || c == '.'; };
  if (item.find('<') != std::string_view::npos) {
    out.emplace_back(item);
    return;
  }
  std::size_t begin = 0;
  bool quoted = false, literal = false;
  for (std::size_t i = 0; i < item.size(); ++i) {
    const char c = item[i];
    if (c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == ']'))
      literal = c == '[';
    if (!ascii_space(c) || quoted || literal) continue;
    const auto rest = trim(item.substr(i));
    if (rest.empty() || joins(rest.front()) || i == begin || joins(item[i - 1])) continue;
    out.emplace_back(trim(item.substr(begin, i - begin)));
    i = item.size() - rest.size();
    begin = i;
    --i;
  }
  out.emplace_back(trim(item.substr(begin)));
}

}  // namespace

Result<std::optional<std::vector<std::string>>> map_once(const Options& options, const Tables& tables,
                                                         const map::MapList& maps, std::string_view address,
                                                         bool propagate) {
  if (maps.empty() || address.empty()) return std::nullopt;
  PEN_TRY_ASSIGN(const map::AddressKeys keys, tables.keys_for(options, address));
  PEN_TRY_ASSIGN(const auto hit, map::find_address(maps, address, keys));
  if (!hit) return std::nullopt;
  std::vector<std::string> out;
  const auto bad = [&] {
    return fail(ResolveError::bad_table_value, maps.maps().front()->name() + ": " + printable(hit->key, 200) + ": \"" +
                                                   printable(hit->value, 200) + "\"");
  };
  std::vector<std::string> items;
  for (const auto& item : map::split_destinations(hit->value)) add_addresses(item, items);
  for (const auto& item : items) {
    if (item.starts_with('@') && item.find(':') == std::string::npos) {
      // @domain: the same user in that domain.
      if (item.size() == 1) return bad();
      out.push_back(rewrite_address(options, std::string(mail::local_part(address)) + item));
      continue;
    }
    auto listed = mail::parse_address_list(item, 2);
    if (listed.size() != 1) return bad();
    std::string mapped = listed.front().address;
    if (propagate && hit->delimiter != '\0') mapped = with_extension(mapped, *hit);
    out.push_back(rewrite_address(options, mapped));
  }
  if (out.empty()) return bad();
  return out;
}

namespace {

class VirtualExpander {
 public:
  VirtualExpander(const Options& options, const Tables& tables)
      : options_(options),
        tables_(tables),
        propagate_(!tables.virtual_alias.empty() && list_contains(options.propagate_unmatched_extensions, "virtual")) {}

  Result<Expansion> run(std::string_view recipient) {
    PEN_TRY(expand(std::string(recipient), 0));
    return std::move(out_);
  }

 private:
  Result<void> expand(std::string address, std::size_t depth) {
    if (!out_.limit_passed.empty()) return {};
    if (depth > options_.virtual_alias_recursion_limit) return limit("nesting", address);
    if (address.size() > options_.virtual_alias_address_length_limit) return limit("address length", address);
    std::optional<std::vector<std::string>> mapped;
    if (auto original = tables_.srs ? tables_.srs->original(address) : std::nullopt) {
      if (*original) mapped.emplace({**original});  // else it stays, and is unknown: no catch-all is for it
    } else {
      PEN_TRY_ASSIGN(mapped, map_once(options_, tables_, tables_.virtual_alias, address, propagate_));
      if (!mapped) {
        PEN_TRY_ASSIGN(const bool ours, tables_.is_srs_postmaster(address));
        if (ours) mapped.emplace({"postmaster@" + options_.myorigin});
      }
    }
    if (!mapped) {
      keep(std::move(address));
      return {};
    }
    out_.changed = true;
    path_.push_back(to_lower(address));
    Result<void> done;  // a pending answer does not keep the others from being asked for
    for (auto& next : *mapped) {
      if (out_.addresses.size() > options_.virtual_alias_expansion_limit) return limit("size", address);
      const std::string folded = to_lower(next);
      if (folded == path_.back()) {
        keep(std::move(next));  // an alias that lists itself is delivered
      } else if (std::ranges::find(path_, folded) != path_.end()) {
        return limit("loop", next);
      } else {
        auto one = expand(std::move(next), depth + 1);
        if (!one && !one.error().is(map::MapError::pending)) return one;
        if (!one) done = std::move(one);
      }
    }
    path_.pop_back();
    return done;
  }
  void keep(std::string address) {
    if (!seen_.insert(to_lower(address)).second) return;
    if (out_.addresses.size() >= options_.virtual_alias_expansion_limit) {
      (void)limit("size", address);
      return;
    }
    out_.addresses.push_back(std::move(address));
  }
  Result<void> limit(std::string_view what, std::string_view address) {
    out_.limit_passed =
        "unreasonable virtual_alias_maps map expansion " + std::string(what) + " for " + printable(address, 200);
    return {};
  }

  const Options& options_;
  const Tables& tables_;
  bool propagate_;
  Expansion out_;
  std::vector<std::string> path_;
  std::set<std::string> seen_;
};

}  // namespace

std::string_view word_of(Place place) {
  switch (place) {
    case Place::envelope_sender:
      return "envelope_sender";
    case Place::envelope_recipient:
      return "envelope_recipient";
    case Place::header_sender:
      return "header_sender";
    case Place::header_recipient:
      return "header_recipient";
  }
  return {};
}

Result<std::string> map_canonical(const Options& options, const Tables& tables, std::string_view address_in,
                                  Place place) {
  std::string address(address_in);
  const bool sender = place == Place::envelope_sender || place == Place::header_sender;
  struct Stage {
    const map::MapList& maps;
    const std::string& classes;
  };
  const Stage stages[] = {sender ? Stage{tables.sender_canonical, options.sender_canonical_classes}
                                 : Stage{tables.recipient_canonical, options.recipient_canonical_classes},
                          {tables.canonical, options.canonical_classes}};
  for (const auto& stage : stages) {
    if (stage.maps.empty() || !list_contains(stage.classes, word_of(place))) continue;
    const bool propagate = list_contains(options.propagate_unmatched_extensions, "canonical");
    for (unsigned step = 0; step < kMaxCanonicalSteps; ++step) {
      PEN_TRY_ASSIGN(auto mapped, map_once(options, tables, stage.maps, address, propagate));
      if (!mapped || iequals(mapped->front(), address)) break;
      address = std::move(mapped->front());
    }
  }
  return address;
}

Result<Expansion> map_virtual(const Options& options, const Tables& tables, std::string_view recipient) {
  return VirtualExpander(options, tables).run(recipient);
}

}  // namespace pen::resolve
