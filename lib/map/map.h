#pragma once
/// Look-up tables: Postfix's "type:name" tables behind one interface, and lists of them.
///
/// Use:     auto maps = MapList::open("hash:/etc/x/transport, regexp:/etc/x/rules", options);
///          Result<std::optional<std::string>> value = maps->lookup("example.org");
/// Types:   lmdb, hash and btree (all three: NAME.lmdb), cdb, texthash, inline, static, cidr, regexp, pcre, unix,
///          environ, fail; unionmap, pipemap, randmap (made of others); socketmap, tcp (asked of another process);
///          "proxy:" in front of a type is accepted and skipped (there is no proxymap here).
/// Answers: a value; nullopt: surely not there; an Error: the table is broken or cannot be read. An Error
///          always means "try again later" (4xx, defer), never "not found".
/// Changes: files are looked at again at most once a second and taken anew when inode, size or time of change
///          differ. A file that is missing or broken at open() is no error of open(): look-ups fail until it is
///          repaired.
/// Waiting: look-ups in tables that somebody else answers for wait, unless an Asker (ask.h) runs them.
/// Thread:  every function may be called from any thread at any time. Maps are shared by shared_ptr.
/// Source:  Postfix DATABASE_README, lookup table manual pages; docs in man/penstock-tables.5.
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
  unknown_type,  // a type that this version does not have
  syntax,        // the table's text is wrong; context: file and line
  unreadable,    // missing file, no permission, not an LMDB file, damaged
  read_only,     // the type cannot be built or changed
  too_large,     // a key or value beyond the bounds
  name_service,  // getpwnam and the like failed
  not_trusted,   // the table, or a rule of it, lets outsiders choose values (OpenOptions::substitute)
  pending,       // the answer has been asked for: the work that needs it is run again (Asker)
};
std::string_view error_module(MapError);
std::string_view describe(MapError);

inline constexpr std::size_t kMaxKey = 2048;  // longer keys are "not found" without a look-up
// for regexp and pcre, which are asked about whole header fields
inline constexpr std::size_t kMaxPatternKey = 1024 * 1024;
inline constexpr std::size_t kMaxValue = 1024 * 1024;  // alias lists can be long
inline constexpr std::size_t kMaxFile = 512u << 20;    // text tables are held in memory

using Value = Result<std::optional<std::string>>;

class Map {
 public:
  virtual ~Map() = default;
  /// The value under key. Keys of indexed tables are folded to lower case here; patterns and cidr
  /// see it as it is.
  virtual Value lookup(std::string_view key) = 0;
  /// May wait for another process or the name service for long: look it up through an Asker (ask.h). False: memory or
  /// mapped pages.
  virtual bool blocking() const { return false; }
  /// regexp, pcre, cidr: the table wants the whole key only, never a part of it (user@, @domain,
  /// parent domains).
  virtual bool whole_key_only() const { return false; }
  /// What is wrong with the table right now, if anything (for start-up messages and penstock check).
  virtual std::optional<Error> problem() { return std::nullopt; }
  /// The user id that the table's file belongs to: whose word its content is. nullopt: it has no file, or none now.
  virtual std::optional<std::uint32_t> owner() { return std::nullopt; }
  /// "type:name".
  const std::string& name() const { return name_; }

 protected:
  explicit Map(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

struct OpenOptions {
  std::string default_type = "hash";  // default_database_type, for a name without type
  bool fold_keys = true;              // regexp/pcre are case-insensitive by their own flags
  const Clock* clock = &system_clock();
  /// false: the values say where mail goes or what is run, and are parsed for that. Then no part of a key may come into
  /// one, for the key is a stranger's: a regexp or pcre table with $number in a result is broken (look-ups and
  /// problem() say so), and so is tcp:, whose answers anybody on the way can give. Holds for tables within tables
  /// too.
  bool substitute = true;
  /// false: the values decide about identities and files. Then a table that another process serves (socketmap:, tcp:)
  /// is broken, as its answers are not this host's administrator's. Holds for tables within tables too.
  bool served = true;
};
/// Opens one table. Errors: bad_spec, unknown_type. A missing or broken file is no error here: look-ups and problem()
/// tell of it until it is repaired.
Result<std::shared_ptr<Map>> open(std::string_view spec, const OpenOptions& options = {});
/// The types that open() knows, for penconf -m.
std::vector<std::string_view> known_types();

/// An ordered list of tables, as settings like alias_maps hold it: the first hit wins; the first
/// error ends the search with that error, because a later table must not answer for a broken one.
class MapList {
 public:
  MapList() = default;
  /// `value`: specs separated by commas or white space; "{ … }" groups keep theirs (inline:{ a = b, c = d }).
  static Result<MapList> open(std::string_view value, const OpenOptions& options = {});
  /// whole_key: false for a part of a key (user@, @domain): tables that want whole keys only are passed over.
  Value lookup(std::string_view key, bool whole_key = true) const;
  /// The same, with the table that had it.
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

/// A problem of a table as a line for the log: what is wrong, what follows from it, what to do.
std::string advice(const Error& problem);

/// A hit of an address look-up: the value, the key that hit, and the extension that the key left
/// out ("" if none; without delimiter) so that the caller may put it on the result
/// (propagate_unmatched_extensions).
struct AddressHit {
  std::string value;
  std::string key;
  std::string extension;
  char delimiter = '\0';
};
using AddressValue = Result<std::optional<AddressHit>>;

/// Which partial keys an address look-up tries, in this order:
///   user+ext@domain, user@domain, user+ext, user, @domain
/// The bare user forms are tried only when the domain is local (same as $myorigin, in
/// $mydestination, or an $inet_interfaces literal): the caller knows.
/// Source: canonical(5), virtual(5) TABLE SEARCH ORDER.
struct AddressKeys {
  bool bare_user = false;
  bool at_domain = true;
  std::string_view delimiters;  // recipient_delimiter
};
/// Address in external form; the user parts are tried in external form too.
AddressValue find_address(const MapList& maps, std::string_view address, const AddressKeys& keys);

/// transport(5): user+ext@domain, user@domain, domain, .parent …, *. With parent_domains
/// (parent_domain_matches_subdomains contains transport_maps): parents without the dot.
AddressValue find_transport(const MapList& maps, std::string_view address, std::string_view delimiters,
                            bool parent_domains);

/// access(5) keys of an e-mail address: user+ext@domain, user@domain, domain, parents, user+ext@, user@.
AddressValue find_access_address(const MapList& maps, std::string_view address, std::string_view delimiters,
                                 bool parent_domains);
/// access(5) keys of a host name: the name, then its parents.
AddressValue find_access_name(const MapList& maps, std::string_view name, bool parent_domains);
/// access(5) keys of a numeric address: itself, then its networks on octet (IPv4) or group (IPv6) boundaries.
AddressValue find_access_network(const MapList& maps, std::string_view address);

}  // namespace pen::map
