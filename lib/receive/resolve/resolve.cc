#include "lib/receive/resolve/resolve.h"

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/reply.h"
#include "lib/receive/resolve/tables.h"

namespace pen::resolve {
namespace {

constexpr std::size_t kMaxMovedText = 400;  // the text becomes part of a reply line
constexpr unsigned kMaxRouteSteps = 20;     // of user%a%b%c@here and the like, where each host is ours

class ResolveImpl final : public Resolve {
 public:
  static Result<std::shared_ptr<const Resolve>> make(Options options) {
    auto made = std::make_shared<ResolveImpl>();
    made->options_ = std::move(options);
    PEN_TRY_ASSIGN(made->tables_, Tables::open(made->options_));
    const Options& o = made->options_;
    for (const auto* transport : {&o.local_transport, &o.virtual_transport, &o.relay_transport, &o.default_transport}) {
      if (parse_transport(*transport).transport.empty()) {
        return fail(ResolveError::bad_setting, "a transport setting without transport: \"" + *transport + "\"");
      }
    }
    return made;
  }

  std::string rewrite(std::string_view address, std::optional<std::string_view> remote_domain) const override {
    return rewrite_address(options_, address, remote_domain);
  }
  Result<std::string> without_route(std::string_view address) const override {
    std::string plain = rewrite_address(options_, address);
    if (plain.empty() || !is_route(mail::local_part(plain))) return plain;
    bool routed = false;
    return undo_routing(plain, routed);
  }
  Result<std::string> canonical(std::string_view address, Place place) const override {
    PEN_TRY_ASSIGN(auto mapped, map_canonical(options_, tables_, address, place));
    return tables_.masquerade.hide(std::move(mapped), place);
  }
  Result<Expansion> expand_virtual(std::string_view recipient) const override {
    return map_virtual(options_, tables_, recipient);
  }
  Result<AddressClass> class_of(std::string_view domain) const override {
    return tables_.class_of(options_.resolve_numeric_domain ? literal_of(std::string(domain)) : domain);
  }

  Result<Route> route(std::string_view sender, std::string_view recipient) const override {
    Route route;
    PEN_TRY_ASSIGN(route.recipient, undo_routing(recipient, route.routed));
    const std::string domain = to_lower(mail::domain_part(route.recipient));
    if (!valid_domain(domain)) return bad_address(std::move(route), "5.1.3 bad address syntax");

    PEN_TRY_ASSIGN(route.address_class, tables_.class_of(domain));
    PEN_TRY(choose_default(sender, domain, route));
    if (route.address_class != AddressClass::virtual_alias) {
      PEN_TRY_ASSIGN(const auto hit,
                     map::find_transport(tables_.transport, route.recipient, options_.recipient_delimiter,
                                         tables_.transport_parent_domains));
      if (hit) apply_table(parse_transport(hit->value), domain, route);
    }
    // What comes back to a notice about a notice must not cause another.
    if (route.address_class == AddressClass::local &&
        iequals(mail::unquote_local(mail::local_part(route.recipient)), options_.double_bounce_sender)) {
      route.transport = "discard";
      route.nexthop = "undeliverable postmaster notification discarded";
      return route;
    }
    PEN_TRY_ASSIGN(auto text, moved_text(route.recipient));
    if (text) {
      route.transport = text->front() == '4' ? "retry" : "error";
      route.nexthop = *std::move(text);
    }
    return route;
  }

  Result<std::optional<std::string>> moved(std::string_view recipient) const override {
    if (tables_.relocated.empty()) return std::nullopt;
    bool routed = false;
    PEN_TRY_ASSIGN(const std::string address, undo_routing(recipient, routed));
    return moved_text(address);
  }

  std::optional<Result<std::string>> original_sender(std::string_view recipient) const override {
    return tables_.srs ? tables_.srs->original(recipient) : std::nullopt;
  }
  Result<std::string> forwarded_sender(std::string_view sender) const override {
    if (!tables_.srs || sender.empty()) return std::string();
    const std::string domain = to_lower(mail::domain_part(sender));
    if (idn::same_domain(domain, options_.myorigin) || idn::same_domain(domain, options_.myhostname))
      return std::string();
    PEN_TRY_ASSIGN(const AddressClass own, tables_.class_of(domain));
    if (own != AddressClass::other && own != AddressClass::relay) return std::string();
    return tables_.srs->forward(sender);
  }

  Result<Listed> listed(std::string_view recipient, bool sender) const override {
    if (tables_.srs) {
      if (const auto original = tables_.srs->original(recipient)) return *original ? Listed::elsewhere : Listed::no;
    }
    bool routed = false;
    PEN_TRY_ASSIGN(const std::string address, undo_routing(recipient, routed));
    PEN_TRY_ASSIGN(const AddressClass address_class, tables_.class_of(mail::domain_part(address)));
    const bool may_have_moved = !tables_.relocated.empty();
    if (address_class == AddressClass::other && !may_have_moved) return Listed::not_checked;
    const map::MapList* own = nullptr;
    bool checked = true;
    switch (address_class) {
      case AddressClass::local:
        own = &tables_.local_recipient;
        checked = !own->empty();
        break;
      case AddressClass::virtual_mailbox:
        own = &tables_.virtual_mailbox;
        checked = !own->empty();
        break;
      case AddressClass::relay:
        own = &tables_.relay_recipient;
        checked = !own->empty();
        break;
      case AddressClass::virtual_alias:
        break;
      case AddressClass::other:
        checked = false;
        break;
    }
    if (!checked && !may_have_moved) return Listed::not_checked;
    PEN_TRY_ASSIGN(const map::AddressKeys keys, tables_.keys_for(options_, address));
    const std::string plain =
        mail::unquote_local(mail::local_part(address)) + "@" + std::string(mail::domain_part(address));
    const auto has = [&](const map::MapList& maps) -> Result<bool> {
      PEN_TRY_ASSIGN(const auto hit, map::find_address(maps, address, keys));
      if (hit || plain == address) return hit.has_value();
      PEN_TRY_ASSIGN(const auto unquoted, map::find_address(maps, plain, keys));
      return unquoted.has_value();
    };
    for (const map::MapList* maps :
         {&tables_.virtual_alias, &tables_.recipient_canonical, &tables_.canonical, &tables_.sender_canonical}) {
      if (maps == &tables_.sender_canonical && !sender) continue;
      PEN_TRY_ASSIGN(const bool known, has(*maps));
      if (known) return Listed::elsewhere;
    }
    // Before the recipient's own table, because moved users are usually still in the password file.
    PEN_TRY_ASSIGN(const bool gone, has(tables_.relocated));
    if (gone) return Listed::moved;
    if (!checked) return Listed::not_checked;
    if (own == nullptr) {
      PEN_TRY_ASSIGN(const bool postmaster, tables_.is_srs_postmaster(address));
      return postmaster ? Listed::elsewhere : Listed::no;
    }
    if (address_class == AddressClass::local && is_our_own(mail::local_part(address))) return Listed::yes;
    PEN_TRY_ASSIGN(const bool known, has(*own));
    return known ? Listed::yes : Listed::no;
  }
  std::string_view unlisted_text(AddressClass address_class) const override {
    switch (address_class) {
      case AddressClass::local:
        return "User unknown in local recipient table";
      case AddressClass::virtual_alias:
        return "User unknown in virtual alias table";
      case AddressClass::virtual_mailbox:
        return "User unknown in virtual mailbox table";
      case AddressClass::relay:
        return "User unknown in relay recipient table";
      case AddressClass::other:
        break;
    }
    return "User unknown";
  }

  bool blocking() const override { return tables_.blocking(); }
  bool route_blocking() const override { return tables_.route_blocking(); }
  bool canonical_blocking() const override { return tables_.canonical_blocking(); }
  bool route_by_domain() const override { return !tables_.route_asks_tables(); }
  std::vector<Error> problems() const override { return tables_.problems(); }
  const Options& options() const override { return options_; }

 private:
  /// The senders of notices: of each local domain, whether a table has them or not.
  bool is_our_own(std::string_view local) const {
    const std::string name = mail::unquote_local(local);
    return iequals(name, "mailer-daemon") || iequals(name, options_.double_bounce_sender);
  }

  /// The recipient as routing needs it: completed, and with the address that is hidden in its local part if its domain
  /// is ours.
  Result<std::string> undo_routing(std::string_view recipient, bool& routed) const {
    std::string address = rewrite_address(options_, recipient);
    if (address.empty()) {
      address = options_.empty_address_recipient;
      address += "@" + options_.myorigin;
    }
    // What is in the local part of a rewritten sender is no route.
    if (tables_.srs && tables_.srs->original(address)) return mail::fold_domain(address);
    for (unsigned step = 0; step < kMaxRouteSteps; ++step) {
      const std::string_view domain = mail::domain_part(address);
      std::string local(mail::local_part(address));
      if (domain.empty() || !is_route(local)) break;
      // "a@b"@here is a%b@here in quotes.
      const std::string plain = mail::unquote_local(local);
      routed = true;
      PEN_TRY_ASSIGN(const bool ours, tables_.is_local(domain));
      if (!ours) break;
      std::string inner = plain;
      if (mail::at_sign(inner) == std::string::npos) {
        Options bare = options_;
        bare.append_at_myorigin = false;
        inner = rewrite_address(bare, plain);
      } else {
        inner = rewrite_address(options_, plain);
      }
      if (!mail::has_domain(inner) || inner == address) break;
      address = mail::to_external(inner);
      routed = is_route(mail::local_part(address));
    }
    if (!mail::has_domain(address)) address += "@" + options_.myorigin;
    if (options_.resolve_numeric_domain) {
      std::string domain(mail::domain_part(address));
      if (std::string literal = literal_of(domain); literal != domain)
        address = std::string(mail::local_part(address)) + "@" + literal;
    }
    return mail::fold_domain(address);
  }
  /// Whether a local part names another host. What is in quotes is a name with resolve_dequoted_address = no.
  bool is_route(std::string_view local) const {
    if (local.starts_with('"') && !options_.resolve_dequoted_address) return false;
    return hides_other_host(mail::unquote_local(local));
  }
  bool hides_other_host(std::string_view local) const {
    if (local.find('@') != std::string_view::npos) return true;
    if (options_.allow_percent_hack && local.find('%') != std::string_view::npos && local.front() != '%' &&
        local.back() != '%') {
      return true;
    }
    return options_.swap_bangpath && local.find('!') != std::string_view::npos && local.front() != '!' &&
           local.back() != '!';
  }

  /// "[1.2.3.4]" for 1.2.3.4; any other domain as it is.
  static std::string literal_of(std::string domain) {
    if (!mail::numeric_hostname(domain)) return domain;
    std::string literal = "[" + domain + "]";
    return mail::literal_address(literal) ? literal : domain;
  }
  static bool valid_domain(std::string_view domain) {
    if (domain.starts_with('[')) return mail::literal_address(domain).has_value();
    return !mail::numeric_hostname(domain) && mail::valid_hostname(domain, true);
  }
  /// moved() for a resolved address.
  Result<std::optional<std::string>> moved_text(const std::string& address) const {
    if (tables_.relocated.empty()) return std::nullopt;
    PEN_TRY_ASSIGN(const map::AddressKeys keys, tables_.keys_for(options_, address));
    PEN_TRY_ASSIGN(const auto hit, map::find_address(tables_.relocated, address, keys));
    if (!hit) return std::nullopt;
    const std::string value = printable(trim(hit->value), kMaxMovedText);
    if (options_.relocated_prefix_enable) return "5.1.6 User has moved to " + value;
    const auto code = mail::enhanced_code(value);
    if (!code || code->front() == '2' || trim(std::string_view(value).substr(code->size())).empty())
      return "5.2.0 Mailbox is unavailable";
    return value;
  }
  static Route bad_address(Route route, std::string_view why) {
    route.bad_address = true;
    route.transport = "error";
    route.nexthop = why;
    return route;
  }

  /// Sets transport and next hop by address class.
  Result<void> choose_default(std::string_view sender, const std::string& domain, Route& route) const {
    std::string setting;
    route.nexthop = domain;
    switch (route.address_class) {
      case AddressClass::local:
        setting = options_.local_transport;
        break;
      case AddressClass::virtual_alias:
        route.transport = "error";
        route.nexthop = "5.1.1 User unknown in virtual alias table";
        return {};
      case AddressClass::virtual_mailbox:
        setting = options_.virtual_transport;
        break;
      case AddressClass::relay:
        setting = options_.relay_transport;
        break;
      case AddressClass::other: {
        setting = options_.default_transport;
        PEN_TRY_ASSIGN(const auto own, sender_table(tables_.sender_transport, sender,
                                                    options_.empty_address_default_transport_maps_lookup_key));
        if (!own) break;
        setting = *own;
        route.by_sender = "sender_dependent_default_transport_maps";
        if (parse_transport(setting).transport.empty())
          return fail(ResolveError::bad_table_value,
                      route.by_sender + ": a value without transport: \"" + setting + "\"");
        break;
      }
    }
    if (route.address_class == AddressClass::relay || route.address_class == AddressClass::other) {
      PEN_TRY_ASSIGN(const auto own,
                     sender_table(tables_.sender_relayhost, sender, options_.empty_address_relayhost_maps_lookup_key));
      if (own) {
        route.nexthop = *own;
        route.by_sender += route.by_sender.empty() ? "" : ", ";
        route.by_sender += "sender_dependent_relayhost_maps";
      } else if (!options_.relayhost.empty()) {
        route.nexthop = options_.relayhost;
      }
    }
    const TransportSpec spec = parse_transport(setting);
    route.transport = spec.transport;
    if (!spec.nexthop.empty()) route.nexthop = spec.nexthop;
    return {};
  }
  /// The table's value for this sender, unless it is DUNNO or empty.
  Result<std::optional<std::string>> sender_table(const map::MapList& maps, std::string_view sender,
                                                  const std::string& empty_key) const {
    if (maps.empty()) return std::nullopt;
    const std::string_view key = sender.empty() ? std::string_view(empty_key) : sender;
    PEN_TRY_ASSIGN(const map::AddressKeys keys, tables_.keys_for(options_, key));
    PEN_TRY_ASSIGN(const auto hit, map::find_address(maps, key, keys));
    if (!hit) return std::nullopt;
    const std::string_view value = trim(hit->value);
    if (value.empty() || iequals(value, "dunno")) return std::nullopt;
    return std::string(value);
  }

  static void apply_table(const TransportSpec& spec, const std::string& domain, Route& route) {
    if (!spec.transport.empty()) {
      // A named transport without next hop delivers to the recipient's own domain.
      route.transport = spec.transport;
      route.nexthop =
          spec.nexthop.empty() ? (spec.transport == "error" ? "Address is undeliverable" : domain) : spec.nexthop;
    } else if (!spec.nexthop.empty()) {
      route.nexthop = spec.nexthop;
    }
  }

  Options options_;
  Tables tables_;
};

}  // namespace

std::string_view error_module(ResolveError) { return "resolve"; }
std::string_view describe(ResolveError e) {
  switch (e) {
    case ResolveError::bad_setting:
      return "setting makes no sense";
    case ResolveError::bad_table_value:
      return "table value is not an address";
  }
  return "unknown";
}

TransportSpec parse_transport(std::string_view value) {
  value = trim(value);
  const auto colon = value.find(':');
  if (colon == std::string_view::npos) return {std::string(value), {}};
  return {std::string(trim(value.substr(0, colon))), std::string(trim(value.substr(colon + 1)))};
}

Result<std::shared_ptr<const Resolve>> Resolve::open(Options options) { return ResolveImpl::make(std::move(options)); }

namespace {

/// Opens a list that is the value of a setting.
Result<void> open_list(const Options& options, std::string_view setting, map::MatchList::Kind kind,
                       const std::string& value, map::MatchList& into) {
  map::MatchList::Options how;
  how.open = options.open.of(setting);
  how.parent_domains = list_contains(options.parent_domain_matches_subdomains, setting);
  auto opened = map::MatchList::open(kind, value, how);
  if (!opened) return fail(std::move(opened).error().within(setting));
  into = *std::move(opened);
  return {};
}

}  // namespace

Result<Tables> Tables::open_local(const Options& options) {
  Tables t;
  PEN_TRY(open_list(options, "mydestination", map::MatchList::Kind::string, options.mydestination, t.mydestination));
  t.own_addresses = options.own_addresses;
  t.myorigin = to_lower(options.myorigin);
  return t;
}

Result<Tables> Tables::open(const Options& options) {
  using map::MapList;
  using map::MatchList;
  PEN_TRY_ASSIGN(Tables t, open_local(options));
  map::OpenOptions no_substitution = options.open;
  no_substitution.substitute = false;
  const auto maps = [&](std::string_view setting, const std::string& value, MapList& into,
                        bool substitute = true) -> Result<void> {
    auto opened = MapList::open(value, (substitute ? options.open : no_substitution).of(setting));
    if (!opened) return fail(std::move(opened).error().within(setting));
    into = *std::move(opened);
    return {};
  };
  const auto list = [&](std::string_view setting, MatchList::Kind kind, const std::string& value, MatchList& into) {
    return open_list(options, setting, kind, value, into);
  };
  PEN_TRY(
      list("virtual_alias_domains", MatchList::Kind::string, options.virtual_alias_domains, t.virtual_alias_domains));
  PEN_TRY(list("virtual_mailbox_domains", MatchList::Kind::string, options.virtual_mailbox_domains,
               t.virtual_mailbox_domains));
  PEN_TRY(list("relay_domains", MatchList::Kind::domain, options.relay_domains, t.relay_domains));
  PEN_TRY(maps("virtual_alias_maps", options.virtual_alias_maps, t.virtual_alias));
  PEN_TRY(maps("virtual_mailbox_maps", options.virtual_mailbox_maps, t.virtual_mailbox));
  PEN_TRY(maps("relay_recipient_maps", options.relay_recipient_maps, t.relay_recipient));
  PEN_TRY(maps("local_recipient_maps", options.local_recipient_maps, t.local_recipient));
  PEN_TRY(maps("canonical_maps", options.canonical_maps, t.canonical));
  PEN_TRY(maps("sender_canonical_maps", options.sender_canonical_maps, t.sender_canonical));
  PEN_TRY(maps("recipient_canonical_maps", options.recipient_canonical_maps, t.recipient_canonical));
  PEN_TRY(maps(options.route_prefix + "transport_maps", options.transport_maps, t.transport));
  // A stranger must not be able to write the route of mail into his address.
  PEN_TRY(maps(options.route_prefix + "sender_dependent_relayhost_maps", options.sender_dependent_relayhost_maps,
               t.sender_relayhost, false));
  PEN_TRY(maps(options.route_prefix + "sender_dependent_default_transport_maps",
               options.sender_dependent_default_transport_maps, t.sender_transport, false));
  PEN_TRY(maps("relocated_maps", options.relocated_maps, t.relocated));
  PEN_TRY_ASSIGN(t.masquerade, Masquerade::open(options));
  PEN_TRY_ASSIGN(t.srs, SenderRewriting::open(options));
  t.transport_parent_domains = list_contains(options.parent_domain_matches_subdomains, "transport_maps");
  return t;
}

Result<bool> Tables::is_local(std::string_view domain) const {
  if (const auto address = mail::literal_address(domain)) {
    return std::ranges::find(own_addresses, *address) != own_addresses.end();
  }
  return mydestination.matches(domain);
}

Result<bool> Tables::is_srs_postmaster(std::string_view address) const {
  const auto domain = mail::domain_part(address);
  if (!srs || !idn::same_domain(domain, srs->domain()) || !iequals(mail::local_part(address), "postmaster"))
    return false;
  PEN_TRY_ASSIGN(const AddressClass its, class_of(domain));
  return its == AddressClass::virtual_alias;
}

Result<AddressClass> Tables::class_of(std::string_view domain_in) const {
  std::string domain = to_lower(domain_in);
  while (domain.ends_with('.')) domain.pop_back();
  if (domain.empty()) return AddressClass::local;
  PEN_TRY_ASSIGN(const bool local, is_local(domain));
  if (local) return AddressClass::local;
  PEN_TRY_ASSIGN(const bool alias, virtual_alias_domains.matches(domain));
  if (alias) return AddressClass::virtual_alias;
  PEN_TRY_ASSIGN(const bool mailbox, virtual_mailbox_domains.matches(domain));
  if (mailbox) return AddressClass::virtual_mailbox;
  PEN_TRY_ASSIGN(const bool relay, relay_domains.matches(domain));
  if (relay) return AddressClass::relay;
  return srs && idn::same_domain(domain, srs->domain()) ? AddressClass::virtual_alias : AddressClass::other;
}

Result<map::AddressKeys> Tables::keys_for(const Options& options, std::string_view address) const {
  map::AddressKeys keys;
  keys.delimiters = options.recipient_delimiter;
  const std::string_view domain = mail::domain_part(address);
  if (domain.empty()) return keys;
  if (idn::same_domain(domain, myorigin)) {
    keys.bare_user = true;
    return keys;
  }
  PEN_TRY_ASSIGN(keys.bare_user, is_local(domain));
  return keys;
}

bool Tables::blocking() const {
  return std::ranges::any_of(all(), [](const map::MapList* m) { return m->blocking(); }) || route_blocking();
}

bool Tables::canonical_blocking() const {
  return canonical.blocking() || sender_canonical.blocking() || recipient_canonical.blocking() ||
         mydestination.blocking() || masquerade.blocking();
}

bool Tables::route_blocking() const {
  return transport.blocking() || sender_relayhost.blocking() || sender_transport.blocking() || relocated.blocking() ||
         mydestination.blocking() || virtual_alias_domains.blocking() || virtual_mailbox_domains.blocking() ||
         relay_domains.blocking();
}

bool Tables::route_asks_tables() const {
  return !transport.empty() || !sender_relayhost.empty() || !sender_transport.empty() || !relocated.empty() ||
         mydestination.has_tables() || virtual_alias_domains.has_tables() || virtual_mailbox_domains.has_tables() ||
         relay_domains.has_tables();
}

std::vector<Error> Tables::problems() const {
  std::vector<Error> found;
  for (const auto* maps : all()) {
    for (auto& problem : maps->problems()) found.push_back(std::move(problem));
  }
  return found;
}

}  // namespace pen::resolve
