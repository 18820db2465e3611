#pragma once
/// Look-up tables: Postfix's "type:name" tables behind one interface, and lists of them.
///
/// Use:     auto maps = MapList::open("hash:/etc/x/transport, regexp:/etc/x/rules", options);
///          Result<std::optional<std::string>> value = maps->lookup("example.org");
/// Types:   lmdb, hash and btree (all three: NAME.lmdb), cdb, texthash, inline, static, cidr, regexp, pcre, unix,
///          environ, fail; unionmap, pipemap, randmap (combinations of others), debug (debug_map.h); socketmap, tcp
///          (served by another process); mysql, pgsql, sqlite, ldap, mongodb, redis, memcache (databases); "proxy:"
///          in front of a type changes nothing, but the table must be in proxy_read_maps (there is no proxymap here).
/// Answers: a value; nullopt: certainly not there; an Error: the table is broken or cannot be read. An Error always
///          means "try again later" (4xx, defer), never "not found".
/// Changes: files are checked at most once a second and read again when inode, size or time of change differ. open()
///          succeeds even if a file is missing or broken: look-ups then fail until the file is repaired.
/// Waiting: look-ups in tables that another process serves block, unless an Asker (ask.h) runs them.
/// Thread:  every function may be called from any thread at any time. Maps are shared by shared_ptr.
/// Source:  Postfix DATABASE_README, lookup table manual pages; docs in man/penstock-tables.5.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::map {

enum class MapError {
  bad_spec = 1,  // not "type:name"
  unknown_type,  // this version has no such type
  syntax,        // the table's text is malformed; context: file and line
  unreadable,    // missing file, no permission, not an LMDB file, damaged
  read_only,     // the type cannot be built or changed
  too_large,     // a key or value beyond the bounds
  name_service,  // getpwnam and the like failed
  not_trusted,   // the table, or one of its rules, lets outsiders choose values (OpenOptions::substitute)
  unapproved,    // written proxy:type:name, and not in proxy_read_maps
  undeclared,    // this program is no reader of the setting that names the table (permit_settings())
  pending,       // the question is under way: the Asker will run the work again
};
std::string_view error_module(MapError);
std::string_view describe(MapError);

inline constexpr std::size_t kMaxKey = 2048;  // longer keys are "not found" without a look-up
// For regexp and pcre, which get whole header fields as keys.
inline constexpr std::size_t kMaxPatternKey = 1024 * 1024;
inline constexpr std::size_t kMaxValue = 1024 * 1024;  // alias lists can be long
inline constexpr std::size_t kMaxFile = 512u << 20;    // text tables are held in memory

using Value = Result<std::optional<std::string>>;

class Map {
 public:
  virtual ~Map() = default;
  /// The value under key, however its domain is written: where the table has nothing, it is asked for the domain's
  /// other form (idn::other_forms()). Indexed tables fold keys (idn::fold()); patterns and cidr get them unchanged.
  Value lookup(std::string_view key);
  /// Whether a look-up may wait long for another process or the name service: then run it through an Asker (ask.h).
  /// False: the table is in memory or mapped pages.
  virtual bool blocking() const { return false; }
  /// Whether the table takes whole keys only, never parts (user@, @domain, parent domains): regexp, pcre, cidr.
  virtual bool whole_key_only() const { return false; }
  /// The table's present problem, if any (for start-up messages and penstock check).
  virtual std::optional<Error> problem() { return std::nullopt; }
  /// What of the table's own file has no effect (for penstock check).
  virtual std::vector<std::string> notes() { return {}; }
  /// The owner (user id) of the table's file, who vouches for its content. nullopt: there is no file, or none now.
  virtual std::optional<std::uint32_t> owner() { return std::nullopt; }
  /// "type:name".
  const std::string& name() const { return name_; }

 protected:
  explicit Map(std::string name) : name_(std::move(name)) {}

 private:
  /// The value under just this key.
  virtual Value find(std::string_view key) = 0;

  std::string name_;
};

struct OpenOptions {
  std::string default_type = "hash";  // default_database_type, for a name without type
  bool fold_keys = true;              // regexp/pcre are case-insensitive by their own flags
  const Clock* clock = &system_clock();
  /// false: values say where mail goes or which command runs. Keys come from strangers, so no part of a key may get
  /// into such a value: a regexp or pcre table with $number in a result is broken (look-ups and problem() report it).
  /// So is tcp:, whose answers anybody on the network path could give. Holds for inner tables too.
  bool substitute = true;
  /// false: values decide about identities and files. Then a table that another process serves (socketmap:, tcp:) is
  /// broken, because its answers are not those of this host's administrator. Holds for inner tables too.
  /// Databases are allowed with both, as in Postfix: the administrator wrote the file that names the server and the
  /// query, a key is quoted and so cannot become a part of the query, and host and password decide which server
  /// answers. Postfix opens such tables directly even when "proxy:" is written, which is what happens here always.
  bool served = true;
  /// The setting that names the table: what permit_settings() is asked about. Holds for inner tables too.
  std::string setting = {};
  OpenOptions of(std::string_view name) const {
    OpenOptions out = *this;
    out.setting = name;
    return out;
  }
};
/// Opens one table. Errors: bad_spec, unknown_type. A missing or broken file is not an error here: look-ups and
/// problem() report it until it is repaired.
Result<std::shared_ptr<Map>> open(std::string_view spec, const OpenOptions& options = {});
/// Whether the table "type:name" may be opened as proxy:type:name (proxy_read_maps). One that may not is broken. Nobody
/// is asked where OpenOptions::served is false: Postfix opens such tables directly. Set before another thread is
/// started; empty: all may.
using Approve = std::function<bool(const std::string& table)>;
void approve_proxied(Approve approve);
/// Whether this program opens tables of a setting: whether its row in params.def lists it as a reader, by which
/// everything goes that lets a program have its files and servers (lib/suite/confine,
/// lib/suite/service/table_opener.h). A table that is opened for another setting, or for none, is broken, wherever
/// the program runs: so the first test shows it. Set before another thread is started; empty: all are opened.
using Permit = std::function<bool(std::string_view setting)>;
void permit_settings(Permit permit);
/// The same for a file that is no table, as a list of secrets. Errors: undeclared.
Result<void> declared(std::string_view setting);
/// The types that open() knows, for penconf -m.
std::vector<std::string_view> known_types();

/// An ordered list of tables, the value of settings like alias_maps. The first hit wins. The first error ends the
/// search with that error, because a later table must not answer for a broken one.
class MapList {
 public:
  MapList() = default;
  /// `value`: specs separated by commas or white space; a "{ … }" group is not split (inline:{ a = b, c = d }).
  static Result<MapList> open(std::string_view value, const OpenOptions& options = {});
  /// whole_key: false for a part of a key (user@, @domain); tables that take whole keys only are skipped.
  Value lookup(std::string_view key, bool whole_key = true) const;
  /// The same, with the table that had the key.
  struct Hit {
    std::string value;
    std::shared_ptr<Map> map;
  };
  Result<std::optional<Hit>> find(std::string_view key, bool whole_key = true) const;
  bool empty() const { return maps_.empty(); }
  bool blocking() const;
  std::vector<Error> problems() const;
  const std::vector<std::shared_ptr<Map>>& maps() const { return maps_; }

 private:
  std::vector<std::shared_ptr<Map>> maps_;
};

/// A log line about a table's problem: what is wrong, the consequence, and the remedy.
std::string advice(const Error& problem);

/// A hit of an address look-up: the value, the key that hit, and the extension that the key omitted ("" if none;
/// without delimiter). The caller may append the extension to the result (propagate_unmatched_extensions).
struct AddressHit {
  std::string value;
  std::string key;
  std::string extension;
  char delimiter = '\0';
};
using AddressValue = Result<std::optional<AddressHit>>;

/// Which partial keys an address look-up tries, in this order:
///   user+ext@domain, user@domain, user+ext, user, @domain
/// The bare user forms are tried only when the domain is local (same as $myorigin, in $mydestination, or an
/// $inet_interfaces literal); the caller decides that.
/// Source: canonical(5), virtual(5) TABLE SEARCH ORDER.
struct AddressKeys {
  bool bare_user = false;
  bool at_domain = true;
  std::string_view delimiters;  // recipient_delimiter
};
/// The address is in external form; the user parts are tried in external form too.
AddressValue find_address(const MapList& maps, std::string_view address, const AddressKeys& keys);

/// transport(5): user+ext@domain, user@domain, domain, .parent …, *. With parent_domains
/// (parent_domain_matches_subdomains contains transport_maps): parents without the dot.
AddressValue find_transport(const MapList& maps, std::string_view address, std::string_view delimiters,
                            bool parent_domains);

/// access(5) keys of an e-mail address: user+ext@domain, user@domain, domain, parents, user+ext@, user@.
AddressValue find_access_address(const MapList& maps, std::string_view address, std::string_view delimiters,
                                 bool parent_domains);
/// access(5) keys of a host name: the name, then its parent domains.
AddressValue find_access_name(const MapList& maps, std::string_view name, bool parent_domains);
/// access(5) keys of a numeric address: the address, then its networks on octet (IPv4) or group (IPv6) boundaries.
AddressValue find_access_network(const MapList& maps, std::string_view address);

}  // namespace pen::map
