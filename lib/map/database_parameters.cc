#include "lib/map/database_parameters.h"

#include <algorithm>
#include <array>
#include <vector>

namespace pen::map::database {
namespace {

using enum Of;

constexpr Parameter kCommon[] = {{"domain", ""}, {"result_format", "%s"}, {"expansion_limit", "0"}};

// The old way to write a query.
constexpr Parameter kSql[] = {
    {"query", ""}, {"table", ""}, {"select_field", ""}, {"where_field", ""}, {"additional_conditions", ""},
};

constexpr Parameter kServers[] = {
    {"hosts", "", connection},           {"user", "", connection},
    {"password", "", connection},        {"dbname", "", connection},
    {"idle_interval", "60", connection}, {"retry_interval", "60", connection},
};

constexpr Parameter kMysql[] = {
    {"charset", "utf8mb4", connection},    {"option_file", "", connection},   {"option_group", "client", connection},
    {"require_result_set", "yes"},         {"tls_cert_file", "", connection}, {"tls_key_file", "", connection},
    {"tls_CAfile", "", connection},        {"tls_CApath", "", connection},    {"tls_ciphers", "", connection},
    {"tls_verify_cert", "no", connection},
};

constexpr Parameter kPgsql[] = {{"encoding", "UTF8", connection}, {"select_function", ""}};

constexpr Parameter kRedis[] = {
    {"query", ""},
    {"hosts", "", connection},
    {"port", "6379", connection},
    {"username", "", connection},
    {"password", "", connection},
    {"db", "0", connection},
    {"tls", "no", connection},
    {"tls_CAfile", "/etc/ssl/certs/ca-certificates.crt", connection},
    {"tls_cert_file", "", connection},
    {"tls_key_file", "", connection},
    {"tls_server_name", "", connection},
    {"timeout", "10", connection},
    {"idle_interval", "60", connection},
    {"retry_interval", "60", connection},
};

constexpr Parameter kMemcache[] = {
    {"memcache", "inet:localhost:11211", connection},
    {"backup", ""},
    {"flags", "0"},
    {"ttl", "3600"},
    {"key_format", "%s"},
    {"domain", ""},
    {"data_size_limit", "10240"},
    {"line_size_limit", "1024"},
    {"max_try", "2"},
    {"retry_pause", "1"},
    {"timeout", "2"},
};

constexpr Parameter kMongodb[] = {
    {"uri", "", connection}, {"dbname", ""},     {"collection", ""},
    {"query_filter", ""},    {"projection", ""}, {"result_attribute", ""},
};

constexpr Parameter kSqlite[] = {{"dbpath", "", connection}};

constexpr Parameter kLdap[] = {
    {"server_host", "localhost", connection},
    {"server_port", "389", connection},
    {"timeout", "10", connection},
    {"search_base", ""},
    {"query_filter", "(mailacceptinggeneralid=%s)"},
    {"result_filter", ""},  // the old name of result_format
    {"result_attribute", "maildrop"},
    {"special_result_attribute", ""},
    {"terminal_result_attribute", ""},
    {"leaf_result_attribute", ""},
    {"scope", "sub"},
    {"bind", "yes", connection},
    {"bind_dn", "", connection},
    {"bind_pw", "", connection},
    {"recursion_limit", "1000"},
    {"size_limit", ""},  // empty: expansion_limit
    {"dereference", "0", connection},
    {"chase_referrals", "no", connection},
    {"version", "2", connection},
    {"debuglevel", "0", connection},
    {"sasl_mechs", "", connection},
    {"sasl_realm", "", connection},
    {"sasl_authz_id", "", connection},
    {"sasl_minssf", "0", connection},
    {"start_tls", "no", connection},
    {"tls_ca_cert_dir", "", connection},
    {"tls_ca_cert_file", "", connection},
    {"tls_cert", "", connection},
    {"tls_key", "", connection},
    {"tls_require_cert", "no", connection},
    {"tls_cipher_suite", "", connection},
    {"tls_random_file", "", nothing},
    {"cache", "", nothing},
    {"cache_expiry", "", nothing},
    {"cache_size", "", nothing},
};

std::vector<Parameter> joined(std::initializer_list<std::span<const Parameter>> parts) {
  std::vector<Parameter> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

std::span<const Parameter> parameters_of(std::string_view type) {
  static const std::vector<Parameter> mysql = joined({kCommon, kSql, kServers, kMysql});
  static const std::vector<Parameter> pgsql = joined({kCommon, kSql, kServers, kPgsql});
  static const std::vector<Parameter> sqlite = joined({kCommon, kSql, kSqlite});
  static const std::vector<Parameter> ldap = joined({kCommon, kLdap});
  static const std::vector<Parameter> mongodb = joined({kCommon, kMongodb});
  static const std::vector<Parameter> redis = joined({kCommon, kRedis});
  if (type == "memcache") return kMemcache;
  if (type == "mongodb") return mongodb;
  if (type == "redis") return redis;
  if (type == "mysql") return mysql;
  if (type == "pgsql") return pgsql;
  if (type == "sqlite") return sqlite;
  return ldap;
}

}  // namespace pen::map::database
