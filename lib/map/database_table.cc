#include "lib/map/database_table.h"

#include <algorithm>

#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/map/database_parameters.h"
#include "lib/map/memcache_driver.h"
#include "lib/map/mongodb_filter.h"
#include "lib/map/passed_over.h"
#include "lib/map/redis_query.h"
#include "lib/map/table_text.h"
#include "lib/map/timed_socket.h"

namespace pen::map::database {
namespace {

constexpr std::size_t kMostHosts = 100;  // a look-up has 30 s for all of them
constexpr std::size_t kMostSeconds = 86400;
constexpr std::size_t kMostTries = 10;

class Reader {
 public:
  Reader(std::string type, std::string file) : table_(std::make_shared<Table>()) {
    table_->type = std::move(type);
    table_->file = std::move(file);
  }

  Result<void> lines(std::string_view text) {
    for (const LogicalLine& line : logical_lines(text)) {
      const auto equals = line.text.find('=');
      const std::string name(trim(std::string_view(line.text).substr(0, equals)));
      if (equals == std::string::npos || name.empty() || name.find_first_of(" \t") != std::string::npos)
        return bad("line " + std::to_string(line.number) + ": expected name = value");
      given_[name] = trim(std::string_view(line.text).substr(equals + 1));
    }
    return {};
  }
  void from(const std::string& name, const MainCf& main_cf) {
    for (const Parameter& parameter : parameters_of(table_->type))
      if (auto value = main_cf(name + "_" + std::string(parameter.name)))
        given_[std::string(parameter.name)] = *std::move(value);
  }

  Result<std::shared_ptr<Table>> table(const OpenOptions& options) {
    settings();
    if (table_->type == "memcache") {
      PEN_TRY(memcache(options));
    } else {
      PEN_TRY(number("expansion_limit", table_->expansion_limit));
      PEN_TRY(templates());
    }
    if (table_->type == "redis") PEN_TRY(redis(options));
    PEN_TRY(hosts());
    PEN_TRY(times());
    if (const std::string& domains = get("domain"); !domains.empty()) {
      auto list = MatchList::open(MatchList::Kind::string, domains, {.open = options});
      if (!list) return bad("domain: " + list.error().message());
      table_->domains = *std::move(list);
    }
    return table_;
  }

 private:
  const std::string& get(std::string_view name) const { return setting(table_->settings, name); }
  std::unexpected<Error> bad(const std::string& what) const {
    return fail(MapError::syntax, table_->file + ": " + what);
  }

  void settings() {
    for (const Parameter& parameter : parameters_of(table_->type)) {
      auto given = given_.extract(std::string(parameter.name));
      if (given && parameter.of == Of::nothing)
        table_->notes.push_back(std::string(parameter.name) + " has no effect here");
      table_->settings.emplace(parameter.name, given ? std::move(given.mapped()) : std::string(parameter.initial));
      if (given) named_.push_back(std::string(parameter.name));
    }
    std::size_t unknown = 0;
    for (const auto& [name, value] : given_)
      if (++unknown <= PassedOver::kMax)
        table_->notes.push_back("unknown parameter " + printable(name, 60) + " is passed over");
    if (unknown > PassedOver::kMax)
      table_->notes.push_back("and " + std::to_string(unknown - PassedOver::kMax) + " more unknown parameters");
  }

  Result<void> number(std::string_view name, std::size_t& out) const {
    const auto value = parse_unsigned(get(name));
    if (!value || *value > 1'000'000'000) return bad(std::string(name) + ": expected a number");
    out = static_cast<std::size_t>(*value);
    return {};
  }
  Result<void> time(std::string_view name, seconds& out) const {
    std::string_view text = get(name);
    std::size_t unit = 1;
    if (!text.empty() && !ascii_digit(text.back())) {
      unit = 0;
      constexpr std::pair<char, std::size_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
      for (const auto& [letter, of] : kUnits)
        if (text.back() == letter) unit = of;
      text.remove_suffix(1);
    }
    const auto value = parse_unsigned(text);
    if (!value || unit == 0 || *value > kMostSeconds / unit)
      return bad(std::string(name) + ": expected a time of at most a day");
    out = seconds(*value * unit);
    return {};
  }

  Result<void> add_template(const std::string& name, const std::string& text) {
    auto parsed = KeyTemplate::parse(text, name);
    if (!parsed) return bad(parsed.error().context());
    table_->needs |= parsed->needs_of_query();
    table_->templates.emplace(name, *std::move(parsed));
    return {};
  }

  Result<void> memcache(const OpenOptions& options) {
    table_->one_plain_value = true;
    PEN_TRY(add_template("key_format", get("key_format")));
    std::size_t unused = 0;
    for (const char* name : {"flags", "ttl", "data_size_limit", "line_size_limit"}) PEN_TRY(number(name, unused));
    PEN_TRY(number("max_try", table_->tries));
    if (table_->tries == 0 || table_->tries > kMostTries)
      return bad("max_try: expected 1 to " + std::to_string(kMostTries));
    PEN_TRY(time("retry_pause", table_->pause));
    PEN_TRY(time("timeout", table_->try_patience));
    if (table_->try_patience == seconds(0)) return bad("timeout: expected a time of at least a second");
    const auto tries = static_cast<int>(table_->tries);
    table_->patience = std::min(table_->patience, tries * table_->try_patience + (tries - 1) * table_->pause);
    const std::string& backup = get("backup");
    if (backup.empty()) return {};
    if (backup.contains("memcache:")) return bad("backup: a memcache: table cannot stand behind another");
    auto opened = open(backup, options);
    if (!opened) return bad("backup: " + opened.error().message());
    table_->backup = *std::move(opened);
    table_->leave_out_only_host = true;
    return {};
  }

  Result<void> redis(const OpenOptions& options) {
    const std::string& query = get("query");
    const auto words = split_redis(query);
    if (!words || words->empty()) return bad("query: a quote or a backslash has no end");
    if (!is_redis_reader(words->front()))
      return bad("query: " + printable(words->front(), 40) +
                 " is none of the commands that only read: " + redis_readers());
    std::size_t unused = 0;
    PEN_TRY(number("port", unused));
    PEN_TRY(number("db", unused));
    if (!options.served && get("password").empty()) {
      return fail(MapError::not_trusted,
                  table_->file + ": a redis server that asks for no password is not allowed in this setting: set one");
    }
    if (get("password").empty() && !get("username").empty()) return bad("username without password");
    if (const std::string& tls = get("tls"); tls != "yes" && tls != "no") return bad("tls: expected yes or no");
    if (get("tls") == "yes") return redis_tls();
    return {};
  }

  Result<void> redis_tls() {
    if (get("tls_cert_file").empty() != get("tls_key_file").empty())
      return bad("tls_cert_file and tls_key_file belong together");
    for (const auto host : split(get("hosts"))) {
      const auto at = redis_server(host, "");
      if (!at) continue;  // reported when it is asked
      if (!at->path.empty()) return bad("tls: a connection to a Unix socket is not encrypted");
      const bool numeric = !at->has_name() && !iequals(at->host, "localhost");
      if (numeric && get("tls_server_name").empty())
        return bad("tls: " + at->host + " is an address; set tls_server_name to the name in its certificate");
    }
    return {};
  }

  Result<void> mongodb() {
    for (const char* name : {"dbname", "collection", "query_filter"})
      if (get(name).empty()) return bad(std::string(name) + " is missing");
    if (get("projection").empty() == get("result_attribute").empty())
      return bad("exactly one of projection and result_attribute must be set");
    PEN_TRY(add_template("query_filter", get("query_filter")));
    std::string fault;
    (void)table_->templates.at("query_filter")
        .expand(KeyParts("u@9.8.7.6.5.4.3.2.1"), [&fault](std::string_view part, std::string& filter) {
          fault = misplaced_in_filter(filter);
          return fault.empty() && quote_in_filter(part, filter);
        });
    if (!fault.empty()) return bad("query_filter: " + fault);
    return {};
  }

  Result<void> templates() {
    if (table_->type == "mongodb") {
      PEN_TRY(mongodb());
    } else if (table_->type == "ldap") {
      if (get("search_base").empty()) return bad("search_base is missing");
      PEN_TRY(add_template("search_base", get("search_base")));
      PEN_TRY(add_template("query_filter", get("query_filter")));
      if (!is_given("result_format") && is_given("result_filter"))
        table_->settings["result_format"] = get("result_filter");
      if (get("size_limit").empty()) table_->settings["size_limit"] = get("expansion_limit");
    } else {
      PEN_TRY_ASSIGN(const std::string query, sql());
      PEN_TRY(add_template("query", query));
    }
    auto parsed = KeyTemplate::parse(get("result_format"), "result_format");
    if (!parsed) return bad(parsed.error().context());
    table_->needs |= parsed->result_needs_of_key();
    table_->result_format = *std::move(parsed);
    return {};
  }

  /// The query, also if it is written the old way.
  Result<std::string> sql() const {
    if (!get("query").empty()) return get("query");
    if (table_->type == "redis") return bad("query is missing, as in: query = GET %s");
    if (!get("select_function").empty()) return "SELECT " + get("select_function") + "('%s')";
    for (const char* name : {"table", "select_field", "where_field"})
      if (get(name).empty())
        return bad(std::string("there is neither a query nor the parameters of the old form: ") + name + " is missing");
    return "SELECT " + get("select_field") + " FROM " + get("table") + " WHERE " + get("where_field") + " = '%s' " +
           get("additional_conditions");
  }
  bool is_given(std::string_view name) const { return std::ranges::find(named_, name) != named_.end(); }

  Result<void> hosts() {
    auto& all = table_->hosts;
    if (table_->type == "mongodb") {
      if (get("uri").empty()) return bad("uri is missing");
      all.push_back(get("uri"));  // the client library takes it apart
    } else if (table_->type == "sqlite") {
      if (get("dbpath").empty()) return bad("dbpath is missing");
      all.push_back(get("dbpath"));
    } else if (table_->type == "memcache") {
      all.push_back(get("memcache"));
      if (!memcache_server(all.back())) return bad("memcache: expected inet:host:port or unix:/path");
    } else if (table_->type == "ldap") {
      for (const auto host : split(get("server_host"))) all.emplace_back(host);
      if (all.empty()) all.emplace_back("localhost");
    } else {
      for (const auto host : split(get("hosts"))) all.emplace_back(host);
      if (all.empty()) all.emplace_back("localhost");
      const bool uris = std::ranges::all_of(
          all, [](const auto& h) { return h.starts_with("postgresql:") || h.starts_with("postgres:"); });
      if (table_->type == "pgsql" && get("dbname").empty() && !uris) return bad("dbname is missing");
    }
    if (all.size() > kMostHosts) return bad("more than " + std::to_string(kMostHosts) + " hosts");
    table_->pool = table_->type;
    for (const std::string& host : all) table_->pool += '\n' + host;
    for (const Parameter& parameter : parameters_of(table_->type))
      if (parameter.of == Of::connection && parameter.name != "hosts" && parameter.name != "server_host")
        table_->pool += '\n' + std::string(parameter.name) + '=' + get(parameter.name);
    return {};
  }

  Result<void> times() {
    if (table_->type == "mysql" || table_->type == "pgsql" || table_->type == "redis") {
      PEN_TRY(time("idle_interval", table_->idle_interval));
      PEN_TRY(time("retry_interval", table_->retry_interval));
    }
    if (table_->type == "ldap" || table_->type == "redis") {
      seconds given{0};
      PEN_TRY(time("timeout", given));
      if (given > seconds(0)) table_->patience = std::min(table_->patience, given);
    }
    return {};
  }

  std::shared_ptr<Table> table_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> named_;
};

}  // namespace

namespace {
MainCf& known_main_cf() {
  static MainCf only;
  return only;
}
}  // namespace
void ask_main_cf(MainCf main_cf) { known_main_cf() = std::move(main_cf); }
const MainCf& main_cf() { return known_main_cf(); }

bool is_type(std::string_view type) { return std::ranges::find(kTypes, type) != std::end(kTypes); }

Result<std::shared_ptr<Table>> read_table(const std::string& type, std::string_view text, const std::string& file,
                                          const OpenOptions& options) {
  Reader reader(type, file);
  PEN_TRY(reader.lines(text));
  return reader.table(options);
}

Result<std::shared_ptr<Table>> table_of_main_cf(const std::string& type, const std::string& name, const MainCf& main_cf,
                                                const OpenOptions& options) {
  Reader reader(type, type + ":" + name + " (main.cf, " + name + "_…)");
  reader.from(name, main_cf);
  return reader.table(options);
}

Result<bool> Table::asks_for(std::string_view key) const {
  const KeyParts parts(key);
  if (key.empty() || !needs.met_by(parts)) return false;
  if (!domains) return true;
  if (parts.user.empty() || parts.domain.empty()) return false;
  return domains->matches(parts.domain);
}

bool Values::add(std::string_view value) {
  if (problem_) return false;
  if (table_.one_plain_value) {
    joined_ = value;
    count_ = 1;
    return false;
  }
  if (value.empty()) return true;
  const auto text = table_.result_format.expand_result(KeyParts(value), KeyParts(key_));
  if (!text) return true;
  if (table_.expansion_limit != 0 && count_ >= table_.expansion_limit) {
    problem_ = Error(MapError::too_large, "expansion_limit " + std::to_string(table_.expansion_limit) +
                                              " exceeded for the key " + printable(key_, 100));
    return false;
  }
  if (joined_.size() + text->size() >= kMaxValue) {
    problem_ = Error(MapError::too_large, "the value of the key " + printable(key_, 100));
    return false;
  }
  if (count_++ != 0) joined_ += ',';
  joined_ += *text;
  return true;
}

Value Values::take() && {
  if (problem_) return std::unexpected(*std::move(problem_));
  if (count_ == 0) return std::nullopt;
  return std::move(joined_);
}

}  // namespace pen::map::database
