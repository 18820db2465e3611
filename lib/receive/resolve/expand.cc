#include <list>
#include <map>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/map/table_text.h"
#include "lib/receive/resolve/tables.h"

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

/// A value that is no address, as Postfix takes it: what is before the last @ is the local part. Most have a domain
/// that no mail goes to (u@d+x): the recipient is returned, as one that was written so in a message is.
std::string as_written(std::string_view item) {
  if (const auto open = item.rfind('<'); open != std::string_view::npos) {
    item.remove_prefix(open + 1);
    item = item.substr(0, item.find('>'));
  }
  const auto at = std::min(item.rfind('@'), item.size());
  return mail::quote_local(mail::unquote_local(trim(item.substr(0, at)))) + std::string(trim(item.substr(at)));
}

// Above any virtual_alias_expansion_limit that the mail system bears.
constexpr std::size_t kMostMembers = 1'000'000;

/// "friends: a@x, b@x;": a group, as in a header.
bool has_group(std::string_view value) {
  const auto end = value.find(';');
  return end != std::string_view::npos && value.substr(0, end).contains(':');
}

}  // namespace

Result<std::optional<std::vector<std::string>>> map_once(const Options& options, const Tables& tables,
                                                         const map::MapList& maps, std::string_view address,
                                                         bool propagate) {
  if (maps.empty() || address.empty()) return std::nullopt;
  PEN_TRY_ASSIGN(map::AddressKeys keys, tables.keys_for(options, address));
  keys.delimiters = options.delimiter_of_maps();
  PEN_TRY_ASSIGN(const auto hit, map::find_address(maps, address, keys));
  if (!hit) return std::nullopt;
  std::vector<std::string> out;
  const auto bad = [&] {
    return fail(ResolveError::bad_table_value, maps.maps().front()->name() + ": " + printable(hit->key, 200) + ": \"" +
                                                   printable(hit->value, 200) + "\"");
  };
  std::vector<std::string> items;
  if (has_group(hit->value)) {
    for (auto& member : mail::parse_address_list(hit->value, kMostMembers)) items.push_back(std::move(member.address));
  } else {
    for (const auto& item : map::split_destinations(hit->value)) add_addresses(item, items);
  }
  for (const auto& item : items) {
    if (item.starts_with('@') && item.find(':') == std::string::npos) {
      // @domain: the same user in that domain.
      if (item.size() == 1) return bad();
      out.push_back(rewrite_address(options, std::string(mail::local_part(address)) + item));
      continue;
    }
    auto listed = mail::parse_address_list(item, 2);
    if (listed.size() > 1 || (listed.empty() && !item.contains('@'))) return bad();
    std::string mapped = listed.empty() ? as_written(item) : listed.front().address;
    if (propagate && hit->delimiter != '\0') mapped = with_extension(mapped, *hit);
    out.push_back(rewrite_address(options, mapped));
  }
  if (out.empty()) return bad();
  return out;
}

namespace {

/// Follows aliases to their ends. Every address is looked up once, however many ways lead to it. One that is among its
/// own results is an end too, so a circle through it comes to rest; a circle without such a member is a fault.
class VirtualExpander {
 public:
  VirtualExpander(const Options& options, const Tables& tables)
      : options_(options),
        tables_(tables),
        propagate_(!tables.virtual_alias.empty() && list_contains(options.propagate_unmatched_extensions, "virtual")) {}

  Result<Expansion> run(std::string_view recipient) {
    ends_.push_back(note(std::string(recipient), 0));
    Result<void> done;  // a pending answer does not keep the others from being asked for
    for (auto at = ends_.begin(); at != ends_.end() && out_.limit_passed.empty();) {
      if (nodes_[*at].keeps_itself) {
        ++at;
        continue;
      }
      auto one = step(at);
      if (!one && !one.error().is(map::MapError::pending)) return fail(std::move(one).error());
      if (!one) done = std::move(one);
    }
    if (!done) return fail(std::move(done).error());
    if (out_.limit_passed.empty() && has_loop()) limit("loop", recipient);
    for (const std::size_t end : ends_) out_.addresses.push_back(std::move(nodes_[end].address));
    return std::move(out_);
  }

 private:
  struct Node {
    std::string address;
    std::size_t depth = 0;          // the number of aliases that lead to it
    std::vector<std::size_t> next;  // its results, without itself
    bool keeps_itself = false;
  };
  using Ends = std::list<std::size_t>;

  std::size_t note(std::string address, std::size_t depth) {
    const auto [at, is_new] = index_.emplace(to_lower(address), nodes_.size());
    if (is_new) nodes_.push_back({.address = std::move(address), .depth = depth, .next = {}});
    return at->second;
  }

  Result<std::optional<std::vector<std::string>>> results_of(const std::string& address) const {
    if (auto original = tables_.srs ? tables_.srs->original(address) : std::nullopt) {
      if (!*original) return std::nullopt;  // it stays, and is unknown: no catch-all is for it
      return std::vector<std::string>{**original};
    }
    PEN_TRY_ASSIGN(auto mapped, map_once(options_, tables_, tables_.virtual_alias, address, propagate_));
    if (mapped) return mapped;
    PEN_TRY_ASSIGN(const bool ours, tables_.is_srs_postmaster(address));
    if (ours) return std::vector<std::string>{"postmaster@" + options_.myorigin};
    return std::nullopt;
  }

  /// Puts the results of the address at `at` in its place, those that are new; `at` then is the next to look up.
  Result<void> step(Ends::iterator& at) {
    const auto here = at++;
    const std::size_t node = *here;
    const std::string address = nodes_[node].address;
    const std::size_t depth = nodes_[node].depth;
    if (depth >= options_.virtual_alias_recursion_limit) {
      limit("nesting", address);
      return {};
    }
    PEN_TRY_ASSIGN(auto mapped, results_of(address));
    if (!mapped) return {};
    out_.changed = true;
    const auto behind = at;
    at = here;
    for (std::string& result : *mapped) {
      if (result.size() > options_.virtual_alias_address_length_limit) limit("address length", address);
      const std::size_t known = nodes_.size();
      std::string as_written = result;
      const std::size_t to = note(std::move(result), depth + 1);
      if (to != node) {
        nodes_[node].next.push_back(to);
        if (to < known) continue;
      } else {
        if (nodes_[node].keeps_itself) continue;
        nodes_[node].keeps_itself = true;
        nodes_[node].address = std::move(as_written);
      }
      ends_.insert(behind, to);
      if (ends_.size() > options_.virtual_alias_expansion_limit + 1) limit("size", address);
      if (!out_.limit_passed.empty()) return {};
    }
    at = ends_.erase(here);
    return {};
  }

  /// Takes away whatever no other leads to, again and again: what remains is a circle and what hangs on it.
  bool has_loop() const {
    std::vector<std::size_t> led_to(nodes_.size()), free;
    const auto counts = [&](const Node& node) { return !node.keeps_itself; };
    for (const Node& node : nodes_)
      if (counts(node))
        for (const std::size_t to : node.next) ++led_to[to];
    std::size_t left = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!counts(nodes_[i])) continue;
      ++left;
      if (led_to[i] == 0) free.push_back(i);
    }
    while (!free.empty()) {
      const Node& node = nodes_[free.back()];
      free.pop_back();
      --left;
      for (const std::size_t to : node.next)
        if (--led_to[to] == 0 && counts(nodes_[to])) free.push_back(to);
    }
    return left != 0;
  }

  void limit(std::string_view what, std::string_view address) {
    out_.limit_passed =
        "unreasonable virtual_alias_maps map expansion " + std::string(what) + " for " + printable(address, 200);
  }

  const Options& options_;
  const Tables& tables_;
  bool propagate_;
  Expansion out_;
  std::vector<Node> nodes_;
  std::map<std::string, std::size_t> index_;  // by the address in small letters
  Ends ends_;                                 // those to look up and those that stay, in the order of the aliases
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
      if (!mapped) break;
      const bool end = iequals(mapped->front(), address);  // as the table writes it
      address = std::move(mapped->front());
      if (end) break;
    }
  }
  return address;
}

Result<Expansion> map_virtual(const Options& options, const Tables& tables, std::string_view recipient) {
  if (tables.virtual_alias.empty() && !tables.srs) {
    Expansion alone;
    alone.addresses.emplace_back(recipient);
    return alone;
  }
  return VirtualExpander(options, tables).run(recipient);
}

}  // namespace pen::resolve
