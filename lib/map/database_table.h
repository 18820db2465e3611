#pragma once
/// A table file of a database: its parameters, checked and with their defaults, and what it says of keys and values.
///
/// Form:    as main.cf: "name = value", a line that begins with a blank continues the one before, # begins a comment.
/// Use:     auto table = read_database_table("mysql", text, "/etc/x.cf", options);
///          if (table->asks_for(key)) …; Values values(*table, key); values.add(row); values.take();
/// Source:  Postfix mysql_table(5), pgsql_table(5), sqlite_table(5), ldap_table(5), memcache_table(5),
///          mongodb_table(5).
/// Errors:  syntax; context: the file and the parameter. Any thread, once it is read.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/map/database_driver.h"
#include "lib/map/key_template.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"

namespace pen::map::database {

struct Table {
  std::string type, file;
  Settings settings;
  // query; or query_filter, for ldap with search_base; or key_format
  std::map<std::string, KeyTemplate, std::less<>> templates;
  KeyTemplate result_format;
  KeyNeeds needs;  // of keys, by all templates
  std::optional<MatchList> domains;
  std::size_t expansion_limit = 0;
  seconds idle_interval{60}, retry_interval{60}, patience{30};
  // A question that fails on a connection is asked so often, with a pause between; each time has its own limit.
  std::size_t tries = 1;
  seconds pause{0}, try_patience{30};
  // Where there is another answer, a server that failed is left out for a time even if it is the only one.
  bool leave_out_only_host = false;
  bool one_plain_value = false;    // the value is taken as it is, empty or not
  std::shared_ptr<Map> backup;     // of memcache; nullptr: none
  std::vector<std::string> hosts;  // in the order of trial: mysql, pgsql, redis: sockets first, then at random
  /// Tables with the same pool name share their connections: it has the type, the hosts, the login and what else makes
  /// a connection different.
  std::string pool;
  std::vector<std::string> notes;  // what is passed over: unknown parameters and such

  /// Whether the key is to be asked for: it has what the templates use, and its domain is in the list `domain`.
  /// Errors: of a table in that list.
  Result<bool> asks_for(std::string_view key) const;
};

/// The types, sorted.
inline constexpr std::string_view kTypes[] = {"ldap", "memcache", "mongodb", "mysql", "pgsql", "redis", "sqlite"};
bool is_type(std::string_view type);

/// Errors: syntax.
Result<std::shared_ptr<Table>> read_table(const std::string& type, std::string_view text, const std::string& file,
                                          const OpenOptions& options);
/// The old form, mysql:name with name_hosts, name_query … in main.cf.
using MainCf = std::function<std::optional<std::string>(const std::string& name)>;
Result<std::shared_ptr<Table>> table_of_main_cf(const std::string& type, const std::string& name, const MainCf& main_cf,
                                                const OpenOptions& options);

/// Where tables of the old form find their parameters. Set before another thread is started; empty: nowhere.
void ask_main_cf(MainCf main_cf);
const MainCf& main_cf();

/// Puts the values of one answer together as result_format says.
class Values {
 public:
  Values(const Table& table, std::string_view key) : table_(table), key_(key) {}
  /// False: no more is taken.
  bool add(std::string_view value);
  /// nullopt: nothing is left. Errors: too_large.
  Value take() &&;

 private:
  const Table& table_;
  std::string_view key_;
  std::string joined_;
  std::size_t count_ = 0;
  std::optional<Error> problem_;
};

}  // namespace pen::map::database
