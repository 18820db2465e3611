#pragma once
/// Rewrites and resolves addresses: gives an address its canonical form, its class, its transport and its next hop.
///
/// Use:     auto r = Resolve::open(options); auto route = (*r)->route(sender, recipient);
/// Steps:   rewrite()         completes and canonicalises an address from a local client
///          expand_virtual()  replaces a recipient by its entry in virtual_alias_maps
///          route()           names transport and next hop
///          listed()          says whether a recipient exists
///          lib/receive/intake does the first two before a message is queued; trivial-rewrite routes.
/// No I/O but table look-ups. blocking() says whether these may wait long (then use the handler pool).
/// Errors:  of tables only: temporary. Everything else is part of the answer.
/// Thread:  any; immutable after open() but for the tables' own reloading.
/// Source:  Postfix ADDRESS_REWRITING_README, ADDRESS_CLASS_README, trivial-rewrite(8).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/map/match_list.h"

namespace pen::resolve {

enum class ResolveError {
  bad_setting = 1,  // a transport or class setting that makes no sense
  bad_table_value,  // a table's value is not an address
};
std::string_view error_module(ResolveError);
std::string_view describe(ResolveError);

/// The srs_* settings, as SenderRewriting (sender_rewriting.h) needs them.
struct SrsOptions {
  std::string domain, secrets_file;  // no domain: off
  std::string exclude_domains;
  std::string separator = "=";
  std::size_t hash_length = 4, hash_minimum = 4;
  unsigned max_age_days = 21;
};

/// The settings that resolving needs, under Postfix's names, as text. from_settings() (from_settings.h) fills them in.
struct Options {
  std::string myorigin, mydomain, myhostname;
  std::string mydestination;
  /// Numeric addresses of inet_interfaces and proxy_interfaces: user@[address] is local.
  std::vector<std::string> own_addresses;
  std::string virtual_alias_domains, virtual_mailbox_domains, relay_domains;
  std::string virtual_alias_maps, virtual_mailbox_maps, relay_recipient_maps, local_recipient_maps, alias_maps;
  std::string canonical_maps, sender_canonical_maps, recipient_canonical_maps;
  std::string canonical_classes = "envelope_sender, envelope_recipient, header_sender, header_recipient";
  std::string sender_canonical_classes = "envelope_sender, header_sender";
  std::string recipient_canonical_classes = "envelope_recipient, header_recipient";
  std::string masquerade_domains, masquerade_exceptions;
  std::string masquerade_classes = "envelope_sender, header_sender, header_recipient";
  std::string propagate_unmatched_extensions = "canonical, virtual";
  std::string route_prefix;  // in front of the names of the four settings that follow: "address_verify_" for probes
  std::string transport_maps, relayhost;
  std::string sender_dependent_relayhost_maps, sender_dependent_default_transport_maps;
  std::string relocated_maps;
  bool relocated_prefix_enable = true;
  std::string local_transport = "local:$myhostname", virtual_transport = "virtual", relay_transport = "relay",
              default_transport = "smtp";
  std::string recipient_delimiter;
  std::optional<std::string> mapping_delimiter;  // where addresses are mapped; nullopt: recipient_delimiter
  const std::string& delimiter_of_maps() const { return mapping_delimiter ? *mapping_delimiter : recipient_delimiter; }
  std::string empty_address_recipient = "MAILER-DAEMON";
  std::string empty_address_default_transport_maps_lookup_key = "<>", empty_address_relayhost_maps_lookup_key = "<>";
  std::string double_bounce_sender = "double-bounce";
  std::string parent_domain_matches_subdomains =
      "debug_peer_list,fast_flush_domains,mynetworks,permit_mx_backup_networks,"
      "qmqpd_authorized_clients,relay_domains,smtpd_access_maps";
  bool append_at_myorigin = true, append_dot_mydomain = false, swap_bangpath = true, allow_percent_hack = true;
  bool resolve_dequoted_address = true, resolve_null_domain = false, resolve_numeric_domain = false;
  /// Whether user@192.0.2.1 is an address at all.
  bool numeric_domains() const { return resolve_numeric_domain; }
  std::size_t virtual_alias_expansion_limit = 1000, virtual_alias_recursion_limit = 1000,
              virtual_alias_address_length_limit = 1000;
  SrsOptions srs;
  const Clock* clock = nullptr;  // for the age of rewritten addresses; nullptr: the machine's
  map::OpenOptions open;
};

enum class AddressClass : std::uint8_t { local, virtual_alias, virtual_mailbox, relay, other };

struct Route {
  AddressClass address_class = AddressClass::other;
  std::string transport;  // master.cf service
  std::string nexthop;    // domain, host, [host]:port, "unix:path" …; for error: the text
  /// After resolving: source route and percent hack undone, domain completed.
  std::string recipient;
  /// The local part still names another host (a%b, a!b): the domain alone does not permit relaying.
  bool routed = false;
  /// The address is not valid; transport is then "error", nexthop "5.1.3 bad address syntax".
  bool bad_address = false;
  /// The sender-dependent settings that were used, for people; empty: none.
  std::string by_sender;
};

/// The kind of address that is rewritten.
enum class Place : std::uint8_t { envelope_sender, envelope_recipient, header_sender, header_recipient };

struct Expansion {
  // External form, rewritten; the given address when no table has it.
  std::vector<std::string> addresses;
  bool changed = false;
  /// The limit that was exceeded, if any: the message must then be refused ("4.6.0 …", as in Postfix), not half
  /// expanded.
  std::string limit_passed;
};

/// Whether tables list a recipient.
enum class Listed : std::uint8_t {
  yes,          // its class's own table has it
  elsewhere,    // an alias or canonical table replaces it
  no,           // its class has a table that does not list it
  not_checked,  // its class has no table
  moved,        // relocated_maps lists it
};

class Resolve {
 public:
  /// Errors: a list or map specification that cannot be parsed.
  static Result<std::shared_ptr<const Resolve>> open(Options options);
  virtual ~Resolve() = default;

  /// The form of an address that tables and routing need: without source route, bang path and percent hack undone,
  /// @myorigin and .mydomain appended as configured. "" stays "". remote_domain: for remote clients, the domain to
  /// append instead of myorigin and mydomain (remote_header_rewrite_domain); nullopt: local rewriting.
  virtual std::string rewrite(std::string_view address,
                              std::optional<std::string_view> remote_domain = std::nullopt) const = 0;
  /// The same as routing sees it: the address that is hidden in its local part, if its domain is ours
  /// (user%there@here). Access tables and owners of senders are looked up by it.
  virtual Result<std::string> without_route(std::string_view address) const { return rewrite(address); }
  /// Applies the sender or recipient canonical_maps, canonical_maps, then masquerade_domains, each if its classes
  /// include the place. The address must be rewritten already.
  virtual Result<std::string> canonical(std::string_view address, Place place) const = 0;
  /// Virtual alias expansion of one recipient, recursive, with limits. A rewritten sender of ours (SRS) expands to the
  /// address that it stands for.
  virtual Result<Expansion> expand_virtual(std::string_view recipient) const = 0;

  /// The class of a domain, by the lists alone; srs_domain, if no list has it, is a virtual alias domain. "[address]"
  /// literals of our own addresses are local.
  virtual Result<AddressClass> class_of(std::string_view domain) const = 0;
  /// Transport and next hop of one recipient; the sender is the key of sender-dependent tables. A recipient in
  /// relocated_maps gets the transport error (retry, if the table says 4.x.x) with the text of moved() as its next
  /// hop.
  virtual Result<Route> route(std::string_view sender, std::string_view recipient) const = 0;
  /// Whether a recipient of ours exists; not_checked also when it is not ours. elsewhere and moved are possible in any
  /// class. An address with a quoted local part is looked up as it is, then without the quotes. A sender exists too if
  /// sender_canonical_maps replaces it.
  virtual Result<Listed> listed(std::string_view recipient, bool sender) const = 0;
  Result<Listed> listed(std::string_view recipient) const { return listed(recipient, false); }
  /// The value in relocated_maps: "5.1.6 User has moved to …"; nullopt: not listed there. Any class.
  virtual Result<std::optional<std::string>> moved(std::string_view recipient) const = 0;
  /// The sender that a recipient stands for, if it is a rewritten one of ours (SRS); an error: it looks so, but was not
  /// made here, or is too old. nullopt: an address like any other.
  virtual std::optional<Result<std::string>> original_sender(std::string_view /*recipient*/) const {
    return std::nullopt;
  }
  /// The sender of mail that is forwarded to another host: rewritten (SRS); empty: it stays as it is, because there is
  /// none, it is of a domain of this host (relay_domains are not), or nothing is rewritten at all.
  virtual Result<std::string> forwarded_sender(std::string_view /*sender*/) const { return std::string(); }
  /// "unknown in local recipient table" and so on: the text for a recipient that is not listed.
  virtual std::string_view unlisted_text(AddressClass address_class) const = 0;

  /// Whether any table may wait long; whether a table that route() uses may.
  virtual bool blocking() const = 0;
  virtual bool route_blocking() const = 0;
  /// Whether a table that canonical() uses may wait long.
  virtual bool canonical_blocking() const = 0;
  /// Whether a route() that is not `routed` is the same for all addresses of its domain and all senders, and changes
  /// only with the configuration: no table is used that could be edited meanwhile.
  virtual bool route_by_domain() const = 0;
  virtual std::vector<Error> problems() const = 0;
  virtual const Options& options() const = 0;
};

/// A "transport:nexthop" value; transport is "" when the value has none. "smtp:[a.example]:25" → smtp, [a.example]:25.
struct TransportSpec {
  std::string transport, nexthop;
};
TransportSpec parse_transport(std::string_view value);

/// Rewrites without tables, as Resolve::rewrite() does. append: its remote_domain.
std::string rewrite_address(const Options& options, std::string_view address,
                            std::optional<std::string_view> append = std::nullopt);

}  // namespace pen::resolve
