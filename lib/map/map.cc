#include "lib/map/map.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/map/database_table.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

constexpr std::array<std::string_view, 25> kTypes = {
    "btree",  "cdb",       "cidr",    "debug",  "environ", "fail",     "hash",    "inline",  "ldap",
    "lmdb",   "memcache",  "mongodb", "mysql",  "pcre",    "pgsql",    "pipemap", "randmap", "redis",
    "regexp", "socketmap", "sqlite",  "static", "tcp",     "texthash", "unionmap"};

}  // namespace

namespace {

Approve& approver() {
  static Approve only;
  return only;
}

Permit& permitter() {
  static Permit only;
  return only;
}

/// Types that Postfix has or had, and what does their work here.
struct Retired {
  std::string_view type, instead;
};
constexpr Retired kRetired[] = {
    {"dbm", "dbm files are not read here: write hash: or lmdb: and make the table from its text by penmap"},
    {"netinfo", "NetInfo is no more: write hash: with a text, or a database"},
    {"nis",
     "NIS is not asked directly: write unix:passwd.byname or unix:group.byname, whose name service may use NIS, "
     "or make a hash: table of the output of ypcat"},
    {"nisplus", "NIS+ is not asked directly: make a hash: table of the output of niscat"},
    {"sdbm", "sdbm files are not read here: write hash: or lmdb: and make the table from its text by penmap"},
};

}  // namespace

void approve_proxied(Approve approve) { approver() = std::move(approve); }
void permit_settings(Permit permit) { permitter() = std::move(permit); }
Result<void> declared(std::string_view setting) {
  if (!permitter() || permitter()(setting)) return {};
  if (setting.empty()) return fail(MapError::undeclared, "opened without the name of its setting");
  return fail(MapError::undeclared, "params.def does not list this program as a reader of " + std::string(setting));
}

std::vector<std::string_view> known_types() {
  std::vector<std::string_view> types(kTypes.begin(), kTypes.end());
  types.push_back("unix");
  return types;
}

Result<std::shared_ptr<Map>> open(std::string_view spec, const OpenOptions& options) {
  spec = trim(spec);
  std::string_view rest = spec;
  while (rest.starts_with("proxy:")) rest.remove_prefix(6);
  const auto colon = rest.find(':');
  std::string type(rest.substr(0, colon));
  std::string name(colon == std::string_view::npos ? rest : rest.substr(colon + 1));
  if (colon == std::string_view::npos) type = options.default_type;
  if (type.empty() || (name.empty() && type != "environ")) {
    return fail(MapError::bad_spec, "\"" + printable(spec, 100) + "\": expected type:name");
  }
  std::string full(spec);
  if (auto ours = declared(options.setting); !ours) return make_broken(std::move(full), std::move(ours).error());
  if (rest.size() < spec.size() && options.served && approver() && !approver()(type + ":" + name)) {
    Error why(MapError::unapproved, printable(full, 200) +
                                        " is not in proxy_read_maps: add it there as it is written here, or leave out "
                                        "proxy:, without which connections are shared too");
    return make_broken(std::move(full), std::move(why));
  }
  if (type == "lmdb" || type == "hash" || type == "btree") return make_lmdb(std::move(full), name, options);
  if (type == "cdb") return make_cdb(std::move(full), name, options);
  if (type == "texthash") return make_texthash(std::move(full), name, options);
  if (type == "inline") return make_inline(std::move(full), name, options);
  if (type == "static") return make_static(std::move(full), name);
  if (type == "fail") return make_fail(std::move(full));
  if (type == "environ") return make_environ(std::move(full));
  if (type == "unionmap") return make_union(std::move(full), name, options);
  if (type == "pipemap") return make_pipe(std::move(full), name, options);
  if (type == "debug") return make_debug(std::move(full), name, options);
  if (type == "randmap") return make_random(std::move(full), name);
  if ((type == "socketmap" || type == "tcp" || type == "memcache") && !options.served) {
    Error why(MapError::not_trusted, full + ": not allowed in this setting");
    return make_broken(std::move(full), std::move(why));
  }
  if (type == "socketmap") return make_socketmap(std::move(full), name);
  if (type == "tcp" && !options.substitute) {
    // The table is broken, not refused: mail must wait for the administrator, not be bounced or lost.
    Error why(MapError::not_trusted, full + ": tcp: is not allowed in this setting");
    return make_broken(std::move(full), std::move(why));
  }
  if (type == "tcp") return make_tcp(std::move(full), name);
  if (type == "memcache") return make_memcache(std::move(full), name, options);
  if (database::is_type(type)) return make_database(std::move(full), type, name, options);
  if (type == "unix") return make_unix(std::move(full), name, options);
  if (type == "cidr") return make_cidr(std::move(full), name, options);
  if (type == "regexp") return make_regexp(std::move(full), name, options);
  if (type == "pcre") return make_pcre(std::move(full), name, options);
  if (const auto* const retired = std::ranges::find(kRetired, type, &Retired::type); retired != std::end(kRetired))
    return fail(MapError::unknown_type, printable(spec, 100) + ": " + std::string(retired->instead));
  return fail(MapError::unknown_type, printable(spec, 100));
}

Result<MapList> MapList::open(std::string_view value, const OpenOptions& options) {
  MapList list;
  (void)declared(options.setting);  // also of an empty list: whether the program may open it does not hang on its value
  for (const auto& spec : split_list(value)) {
    auto map = map::open(spec, options);
    if (!map && map.error().is(MapError::unknown_type)) {
      // Mail must wait, not bounce, while a table is missing: every look-up says why.
      list.maps_.push_back(make_broken(spec, std::move(map).error()));
      continue;
    }
    if (!map) return std::unexpected(std::move(map).error());
    list.maps_.push_back(*std::move(map));
  }
  return list;
}
std::string advice(const Error& problem) {
  std::string text = problem.message();
  text += problem.is_errno(ENOENT)
              ? "; make it with penmap (penalias for alias_maps), or change the setting that names it"
              : "; put it right, or change the setting that names it";
  return text + ": until then mail that needs this table is deferred (451)";
}

Value Map::lookup(std::string_view key) {
  auto value = find(key);
  if (!value || *value) return value;
  for (const std::string& form : idn::other_forms(key)) {
    value = find(form);
    if (!value || *value) return value;
  }
  return std::nullopt;
}

Value MapList::lookup(std::string_view key, bool whole_key) const {
  PEN_TRY_ASSIGN(auto hit, find(key, whole_key));
  if (!hit) return std::nullopt;
  return std::move(hit->value);
}
Result<std::optional<MapList::Hit>> MapList::find(std::string_view key, bool whole_key) const {
  if (key.empty()) return std::nullopt;
  for (const auto& map : maps_) {
    if (!whole_key && map->whole_key_only()) continue;
    auto value = map->lookup(key);
    if (!value) return std::unexpected(std::move(value).error().within(map->name()));
    if (*value) return Hit{**std::move(value), map};
  }
  return std::nullopt;
}
bool MapList::blocking() const {
  return std::ranges::any_of(maps_, [](const auto& map) { return map->blocking(); });
}
std::vector<Error> MapList::problems() const {
  std::vector<Error> found;
  for (const auto& map : maps_) {
    if (auto problem = map->problem()) found.push_back(std::move(*problem).within(map->name()));
  }
  return found;
}

}  // namespace pen::map
