#pragma once
/// Rewriting and resolving: what an address becomes, which class it is in, and which transport and
/// next hop it has.
///
/// Use:     auto r = Resolve::open(options); auto route = (*r)->route(sender, recipient);
/// Steps:   rewrite()         completes and canonicalises what a local client wrote
///          expand_virtual()  replaces a recipient by what virtual_alias_maps say
///          route()           names transport and next hop
///          listed()          says whether a recipient exists
///          lib/intake does the first two before a message is queued; trivial-rewrite routes.
/// No I/O but table look-ups. blocking() tells whether these may wait long (then use the handler pool).
/// Errors:  of tables only: temporary. Everything else is part of the answers.
/// Thread:  any; immutable after open() but for the tables' own reloading.
/// Source:  Postfix ADDRESS_REWRITING_README, ADDRESS_CLASS_README, trivial-rewrite(8).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/map/match_list.h"

namespace pen::resolve {

enum class ResolveError {
  bad_setting = 1,  // a transport or class setting that makes no sense
  bad_table_value,  // a table answered with what is no address
};
std::string_view error_module(ResolveError);
std::string_view describe(ResolveError);

/// The settings that matter here, under Postfix's names, as text. from_settings() (from_settings.h) fills one in.
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
  std::string transport_maps, relayhost;
  std::string sender_dependent_relayhost_maps, sender_dependent_default_transport_maps;
  std::string relocated_maps;
  bool relocated_prefix_enable = true;
  std::string local_transport = "local:$myhostname", virtual_transport = "virtual", relay_transport = "relay",
              default_transport = "smtp";
  std::string recipient_delimiter;
  std::string empty_address_recipient = "MAILER-DAEMON";
  std::string empty_address_default_transport_maps_lookup_key = "<>", empty_address_relayhost_maps_lookup_key = "<>";
  std::string double_bounce_sender = "double-bounce";
  std::string parent_domain_matches_subdomains =
      "debug_peer_list,fast_flush_domains,mynetworks,permit_mx_backup_networks,"
      "qmqpd_authorized_clients,relay_domains,smtpd_access_maps";
  bool append_at_myorigin = true, append_dot_mydomain = false, swap_bangpath = true, allow_percent_hack = true;
  bool resolve_dequoted_address = true, resolve_null_domain = false, resolve_numeric_domain = false;
  std::size_t virtual_alias_expansion_limit = 1000, virtual_alias_recursion_limit = 1000,
              virtual_alias_address_length_limit = 1000;
  map::OpenOptions open;
};

enum class AddressClass : std::uint8_t { local, virtual_alias, virtual_mailbox, relay, other };

struct Route {
  AddressClass address_class = AddressClass::other;
  std::string transport;  // master.cf service
  std::string nexthop;    // domain, host, [host]:port, "unix:path" …; for error: the text
  /// After resolving: source route and percent hack undone, domain completed.
  std::string recipient;
  /// The local part still names another host (a%b, a!b): no relaying because of the domain.
  bool routed = false;
  /// No valid address; transport is then "error", nexthop "5.1.3 bad address syntax".
  bool bad_address = false;
  /// The sender-dependent settings that had a say, for people; empty: none.
  std::string by_sender;
};

/// Which of the rewriting places asks.
enum class Place : std::uint8_t { envelope_sender, envelope_recipient, header_sender, header_recipient };

struct Expansion {
  // external form, rewritten; the given one when no table has it
  std::vector<std::string> addresses;
  bool changed = false;
  /// Set when a limit was passed: the message must be refused ("4.6.0 …", as Postfix does) rather
  /// than half expanded.
  std::string limit_passed;
};

/// What the tables say of a recipient.
enum class Listed : std::uint8_t {
  yes,          // its class's own table has it
  elsewhere,    // an alias or canonical table takes it elsewhere
  no,           // its class has a table, which does not have it
  not_checked,  // its class has none
  moved,        // relocated_maps has it
};

class Resolve {
 public:
  /// Errors: a list or map specification that cannot be read.
  static Result<std::shared_ptr<const Resolve>> open(Options options);
  virtual ~Resolve() = default;

  /// The form of an address that tables and routing want: source route dropped, bang path and percent
  /// hack undone, @myorigin and .mydomain appended as set. "" stays "".
  /// remote_domain: what to append instead of myorigin and mydomain for remote clients
  /// (remote_header_rewrite_domain); nullopt: local rewriting.
  virtual std::string rewrite(std::string_view address,
                              std::optional<std::string_view> remote_domain = std::nullopt) const = 0;
  /// The sender or recipient canonical_maps, canonical_maps, then masquerade_domains, as far as their classes name the
  /// place; for an address already rewritten.
  virtual Result<std::string> canonical(std::string_view address, Place place) const = 0;
  /// Virtual alias expansion of one recipient, recursive, with limits.
  virtual Result<Expansion> expand_virtual(std::string_view recipient) const = 0;

  /// Which class a domain is in, by the lists alone. "[address]" literals of our own are local.
  virtual Result<AddressClass> class_of(std::string_view domain) const = 0;
  /// Transport and next hop of one recipient; sender for the sender-dependent tables. A recipient that relocated_maps
  /// has gets the transport error (retry, if the table says 4.x.x) and what moved() says as its next hop.
  virtual Result<Route> route(std::string_view sender, std::string_view recipient) const = 0;
  /// Whether a recipient of ours exists; not_checked too when it is not our recipient. elsewhere and moved: of any
  /// class. An address with a quoted local part is looked up as it is, then without the quotes.
  virtual Result<Listed> listed(std::string_view recipient) const = 0;
  /// What relocated_maps says of a recipient: "5.1.6 User has moved to …"; nullopt: it does not have it. Any class.
  virtual Result<std::optional<std::string>> moved(std::string_view recipient) const = 0;
  /// "unknown in local recipient table" and so on, for a recipient that is not listed.
  virtual std::string_view unlisted_text(AddressClass address_class) const = 0;

  /// Whether some table may wait long; and whether one that route() asks may.
  virtual bool blocking() const = 0;
  virtual bool route_blocking() const = 0;
  /// Whether one that canonical() asks may.
  virtual bool canonical_blocking() const = 0;
  /// Whether a route() that is not `routed` is so for all addresses of its domain and all senders, and changes with the
  /// configuration only: no table that could be edited meanwhile is asked.
  virtual bool route_by_domain() const = 0;
  virtual std::vector<Error> problems() const = 0;
  virtual const Options& options() const = 0;
};

/// A "transport:nexthop" value: transport "" when the value has none. "smtp:[a.example]:25" → smtp,
/// [a.example]:25.
struct TransportSpec {
  std::string transport, nexthop;
};
TransportSpec parse_transport(std::string_view value);

/// The rewriting alone, without tables: what Resolve::rewrite() does. append: see there.
std::string rewrite_address(const Options& options, std::string_view address,
                            std::optional<std::string_view> append = std::nullopt);

}  // namespace pen::resolve
