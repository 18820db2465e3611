/// ldap: tables, with OpenLDAP's client library.
///
/// Quoting: RFC 4515 in query_filter (and every byte beyond ASCII), RFC 4514 in search_base.
/// Values:  of an entry with a terminal attribute, only that; else of the result attributes, and of the leaf attributes
///          where the entry has no special attribute. The DNs and URLs in special attributes are searched in their
///          turn, no deeper than recursion_limit.
/// Waiting: each wait ends at the look-up's deadline, which holds for the whole recursion.
/// Source:  Postfix ldap_table(5).
#include <ldap.h>

#include <strings.h>
#include <cstring>
#include <set>
#include <vector>

#include "lib/map/drivers/module.h"

namespace pen::map::database {
namespace {

constexpr std::size_t kMostEntries = 100'000;  // of one look-up: each costs the server a search

timeval left(SteadyTime deadline) {
  const int ms = left_until<milliseconds>(deadline);
  return {ms / 1000, (ms % 1000) * 1000};
}

void add_hex(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += '\\';
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}
bool quote_filter(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (std::strchr("*()\\", c) != nullptr) {  // with the NUL that ends this string
      add_hex(out, c);
    } else {
      out += c;
    }
  }
  return true;
}
bool quote_dn(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (std::strchr(" \t\"#+,;<>=\\", c) != nullptr) {
      add_hex(out, c);
    } else {
      out += c;
    }
  }
  return true;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(", \t\r\n"), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

int scope_of(std::string_view text) {
  if (text == "base") return LDAP_SCOPE_BASE;
  if (text == "one") return LDAP_SCOPE_ONELEVEL;
  return LDAP_SCOPE_SUBTREE;
}

/// Whether `attribute` is `wanted` or a subtype by options: mail;lang-en is mail.
bool is_attribute(const char* attribute, const std::string& wanted) {
  const std::size_t size = wanted.size();
  return ::strncasecmp(attribute, wanted.c_str(), size) == 0 && (attribute[size] == '\0' || attribute[size] == ';');
}
bool is_in(const char* attribute, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [attribute](const auto& name) { return is_attribute(attribute, name); });
}

Report failed(int code, std::string why) {
  const bool late = code == LDAP_TIMEOUT || code == LDAP_TIMELIMIT_EXCEEDED;
  const bool lost = code == LDAP_SERVER_DOWN || code == LDAP_CONNECT_ERROR || code == LDAP_UNAVAILABLE ||
                    code == LDAP_BUSY || code == LDAP_ENCODING_ERROR || code == LDAP_DECODING_ERROR;
  if (why.empty()) why = ldap_err2string(code);
  return {late ? Outcome::timed_out : lost ? Outcome::lost : Outcome::refused, std::move(why), !late && !lost};
}

/// One look-up: the search and what it leads to.
class Search {
 public:
  Search(LDAP* ld, const Lookup& lookup) : ld_(ld), lookup_(lookup) {
    const auto names = [&](const char* name) { return words(setting(lookup.settings, name)); };
    terminal_ = names("terminal_result_attribute");
    leaf_ = names("leaf_result_attribute");
    result_ = names("result_attribute");
    special_ = names("special_result_attribute");
    for (const auto* list : {&terminal_, &leaf_, &result_, &special_})
      attributes_.insert(attributes_.end(), list->begin(), list->end());
    const auto number = [&](const char* name) {
      return std::strtol(setting(lookup.settings, name).c_str(), nullptr, 10);
    };
    most_deep_ = number("recursion_limit");
    size_limit_ = static_cast<int>(number("size_limit"));
  }

  Report run(const std::string& base, const std::string& filter, bool varies) {
    return search(base, scope_of(setting(lookup_.settings, "scope")), filter, attributes_, 0, varies);
  }

 private:
  Report search(const std::string& base, int scope, const std::string& filter, const std::vector<std::string>& wanted,
                long depth, bool may_be_missing) {
    if (depth > 0 && depth >= most_deep_)  // the first search counts, as in Postfix

      return {Outcome::refused, "recursion_limit " + std::to_string(most_deep_) + " exceeded"};
    if (system_clock().now() >= lookup_.deadline) return {Outcome::timed_out, "", false};
    std::vector<char*> names;
    std::vector<std::string> copies = wanted;
    for (std::string& name : copies) names.push_back(name.data());
    names.push_back(nullptr);
    LDAPMessage* answer = nullptr;
    timeval limit = left(lookup_.deadline);
    const int code =
        ldap_search_ext_s(ld_, base.c_str(), scope, filter.empty() ? nullptr : filter.c_str(), names.data(), 0, nullptr,
                          nullptr, &limit, size_limit_ > 0 ? size_limit_ + 1 : 0, &answer);
    Report report;
    if (code == LDAP_SUCCESS) {
      report = entries(answer, depth);
    } else if (code != LDAP_NO_SUCH_OBJECT || !may_be_missing) {
      report = failed(code, std::string(ldap_err2string(code)) + " (search of " + base + ")");
    }
    if (answer != nullptr) ldap_msgfree(answer);
    return report;
  }

  Report entries(LDAPMessage* answer, long depth) {
    const int count = ldap_count_entries(ld_, answer);
    if (size_limit_ > 0 && count > size_limit_)
      return {Outcome::refused, "more entries than size_limit " + std::to_string(size_limit_)};
    for (LDAPMessage* e = ldap_first_entry(ld_, answer); e != nullptr; e = ldap_next_entry(ld_, e)) {
      if (++entries_ > kMostEntries) return {Outcome::refused, "too many entries"};
      Report report = entry(e, depth);
      if (report.outcome != Outcome::done || enough_) return report;
    }
    return {};
  }

  struct Attribute {
    std::string name;
    std::vector<std::string> values;
  };
  std::vector<Attribute> read(LDAPMessage* e) {
    std::vector<Attribute> out;
    BerElement* position = nullptr;
    for (char* name = ldap_first_attribute(ld_, e, &position); name != nullptr;
         name = ldap_next_attribute(ld_, e, position)) {
      Attribute attribute{name, {}};
      if (berval** values = ldap_get_values_len(ld_, e, name)) {
        for (berval** v = values; *v != nullptr; ++v) attribute.values.emplace_back((*v)->bv_val, (*v)->bv_len);
        ldap_value_free_len(values);
      }
      ldap_memfree(name);
      if (!attribute.values.empty()) out.push_back(std::move(attribute));
    }
    if (position != nullptr) ber_free(position, 0);
    return out;
  }

  Report entry(LDAPMessage* e, long depth) {
    const std::vector<Attribute> all = read(e);
    const auto has = [&](const std::vector<std::string>& names) {
      return std::ranges::any_of(all, [&](const Attribute& a) { return is_in(a.name.c_str(), names); });
    };
    const bool terminal = has(terminal_);
    const bool special = has(special_);
    for (const Attribute& a : all) {
      const char* name = a.name.c_str();
      const bool counts = terminal ? is_in(name, terminal_) : is_in(name, result_) || (is_in(name, leaf_) && !special);
      if (counts) {
        for (const std::string& value : a.values)
          if (!lookup_.add(value)) {
            enough_ = true;
            return {};
          }
      } else if (!terminal && is_in(name, special_)) {
        for (const std::string& value : a.values) {
          Report report = follow(value, depth + 1);
          if (report.outcome != Outcome::done || enough_) return report;
        }
      }
    }
    return {};
  }

  /// Searches what a special attribute points to. A DN that is not there is passed over.
  Report follow(const std::string& value, long depth) {
    if (ldap_is_ldap_url(value.c_str()) == 0)
      return search(value, LDAP_SCOPE_BASE, "(objectclass=*)", attributes_, depth, true);
    LDAPURLDesc* url = nullptr;
    if (ldap_url_parse(value.c_str(), &url) != LDAP_URL_SUCCESS) return {};
    std::vector<std::string> wanted;
    if (url->lud_attrs == nullptr) {
      wanted = attributes_;
    } else {
      for (char** a = url->lud_attrs; *a != nullptr; ++a)
        for (const std::string& name : attributes_)
          if (::strcasecmp(*a, name.c_str()) == 0) wanted.push_back(name);
    }
    Report report;
    if (!wanted.empty())
      report = search(url->lud_dn == nullptr ? "" : url->lud_dn, url->lud_scope,
                      url->lud_filter == nullptr ? "" : url->lud_filter, wanted, depth, true);
    ldap_free_urldesc(url);
    return report;
  }

  LDAP* ld_;
  const Lookup& lookup_;
  std::vector<std::string> terminal_, leaf_, result_, special_, attributes_;
  long most_deep_ = 1000;
  int size_limit_ = 0;
  std::size_t entries_ = 0;
  bool enough_ = false;
};

class LdapConnection final : public Connection {
 public:
  explicit LdapConnection(LDAP* ld) : ld_(ld) {}
  ~LdapConnection() override { ldap_unbind_ext(ld_, nullptr, nullptr); }
  LdapConnection(const LdapConnection&) = delete;
  LdapConnection& operator=(const LdapConnection&) = delete;

  Report ask(const Lookup& lookup) override {
    const auto base = lookup.expand("search_base", quote_dn);
    const auto filter = lookup.expand("query_filter", quote_filter);
    if (!base || !filter) return {Outcome::refused, "the key cannot be quoted"};
    timeval limit = left(lookup.deadline);
    ldap_set_option(ld_, LDAP_OPT_TIMEOUT, &limit);
    ldap_set_option(ld_, LDAP_OPT_NETWORK_TIMEOUT, &limit);
    return Search(ld_, lookup).run(*base, *filter, *base != setting(lookup.settings, "search_base"));
  }

 private:
  LDAP* ld_;
};

/// What the SASL mechanism asks for.
struct SaslAnswers {
  std::string user, password, realm, authz;
};
int answer_sasl(LDAP*, unsigned, void* given, void* asked) {
  // Of sasl.h, which is not needed for more than these: { id, challenge, prompt, default, result, length }.
  struct Question {
    unsigned long id;
    const char *challenge, *prompt, *initial;
    const void* result;
    unsigned length;
  };
  constexpr unsigned long kEnd = 0, kUser = 0x4001, kAuthName = 0x4002, kPassword = 0x4004, kRealm = 0x4008;
  const auto& answers = *static_cast<const SaslAnswers*>(given);
  for (auto* q = static_cast<Question*>(asked); q->id != kEnd; ++q) {
    const std::string* text = nullptr;
    if (q->id == kUser) text = &answers.authz;
    if (q->id == kAuthName) text = &answers.user;
    if (q->id == kPassword) text = &answers.password;
    if (q->id == kRealm) text = &answers.realm;
    q->result = text == nullptr ? "" : text->c_str();
    q->length = text == nullptr ? 0 : static_cast<unsigned>(text->size());
  }
  return LDAP_SUCCESS;
}

class LdapDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const std::string uri =
        host.find("://") != std::string::npos ? host : "ldap://" + with_port(host, setting(settings, "server_port"));
    LDAP* ld = nullptr;
    if (const int code = ldap_initialize(&ld, uri.c_str()); code != LDAP_SUCCESS) {
      report = {Outcome::lost, uri + ": " + ldap_err2string(code)};
      return nullptr;
    }
    auto out = std::make_unique<LdapConnection>(ld);
    int code = set_up(ld, settings, deadline);
    if (code == LDAP_SUCCESS && is_yes(settings, "start_tls")) code = ldap_start_tls_s(ld, nullptr, nullptr);
    if (code == LDAP_SUCCESS) code = bind(ld, settings, deadline);
    if (code == LDAP_SUCCESS) return out;
    report = failed(code, why(ld, code));
    if (report.outcome == Outcome::refused) report.outcome = Outcome::lost;  // as this login is of no use there
    return nullptr;
  }

 private:
  static std::string with_port(const std::string& host, const std::string& port) {
    const bool ipv6 = std::ranges::count(host, ':') > 1;
    if (!ipv6 && host.find(':') != std::string::npos) return host;
    return (ipv6 && host.front() != '[' ? "[" + host + "]" : host) + ":" + port;
  }

  static std::string why(LDAP* ld, int code) {
    std::string text = ldap_err2string(code);
    char* more = nullptr;
    if (ldap_get_option(ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &more) == LDAP_OPT_SUCCESS && more != nullptr) {
      if (*more != '\0') text += std::string(" (") + more + ")";
      ldap_memfree(more);
    }
    return text;
  }

  static int set_up(LDAP* ld, const Settings& settings, SteadyTime deadline) {
    timeval limit = left(deadline);
    // OpenLDAP's servers refuse version 2, and it has neither TLS nor SASL: the default of Postfix means 3 here.
    int version = LDAP_VERSION3;
    int aliases = static_cast<int>(std::strtol(setting(settings, "dereference").c_str(), nullptr, 10));
    bool good = ldap_set_option(ld, LDAP_OPT_NETWORK_TIMEOUT, &limit) == LDAP_OPT_SUCCESS &&
                ldap_set_option(ld, LDAP_OPT_TIMEOUT, &limit) == LDAP_OPT_SUCCESS &&
                ldap_set_option(ld, LDAP_OPT_PROTOCOL_VERSION, &version) == LDAP_OPT_SUCCESS &&
                ldap_set_option(ld, LDAP_OPT_DEREF, &aliases) == LDAP_OPT_SUCCESS &&
                ldap_set_option(ld, LDAP_OPT_REFERRALS,
                                is_yes(settings, "chase_referrals") ? LDAP_OPT_ON : LDAP_OPT_OFF) == LDAP_OPT_SUCCESS;
    const std::pair<int, const char*> texts[] = {{LDAP_OPT_X_TLS_CACERTDIR, "tls_ca_cert_dir"},
                                                 {LDAP_OPT_X_TLS_CACERTFILE, "tls_ca_cert_file"},
                                                 {LDAP_OPT_X_TLS_CERTFILE, "tls_cert"},
                                                 {LDAP_OPT_X_TLS_KEYFILE, "tls_key"},
                                                 {LDAP_OPT_X_TLS_CIPHER_SUITE, "tls_cipher_suite"}};
    for (const auto& [option, name] : texts)
      if (const std::string& value = setting(settings, name); !value.empty())
        good = good && ldap_set_option(ld, option, value.c_str()) == LDAP_OPT_SUCCESS;
    int demand = is_yes(settings, "tls_require_cert") ? LDAP_OPT_X_TLS_DEMAND : LDAP_OPT_X_TLS_NEVER;
    int client = 0;
    good = good && ldap_set_option(ld, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand) == LDAP_OPT_SUCCESS &&
           ldap_set_option(ld, LDAP_OPT_X_TLS_NEWCTX, &client) == LDAP_OPT_SUCCESS;
    return good ? LDAP_SUCCESS : LDAP_PARAM_ERROR;
  }

  static int bind(LDAP* ld, const Settings& settings, SteadyTime deadline) {
    const std::string& how = setting(settings, "bind");
    if (how == "no" || how == "none") return LDAP_SUCCESS;
    if (how == "sasl") {
      SaslAnswers answers{setting(settings, "bind_dn"), setting(settings, "bind_pw"), setting(settings, "sasl_realm"),
                          setting(settings, "sasl_authz_id")};
      const std::string security = "minssf=" + setting(settings, "sasl_minssf");
      ldap_set_option(ld, LDAP_OPT_X_SASL_SECPROPS, security.c_str());
      const std::string& mechanisms = setting(settings, "sasl_mechs");
      return ldap_sasl_interactive_bind_s(ld, nullptr, mechanisms.empty() ? nullptr : mechanisms.c_str(), nullptr,
                                          nullptr, LDAP_SASL_QUIET, answer_sasl, &answers);
    }
    std::string password = setting(settings, "bind_pw");
    berval secret{password.size(), password.data()};
    int id = -1;
    int code =
        ldap_sasl_bind(ld, setting(settings, "bind_dn").c_str(), LDAP_SASL_SIMPLE, &secret, nullptr, nullptr, &id);
    if (code != LDAP_SUCCESS) return code;
    timeval limit = left(deadline);
    LDAPMessage* answer = nullptr;
    const int type = ldap_result(ld, id, LDAP_MSG_ALL, &limit, &answer);
    if (type == 0) return LDAP_TIMEOUT;
    if (type < 0) return LDAP_SERVER_DOWN;
    if (ldap_parse_result(ld, answer, &code, nullptr, nullptr, nullptr, nullptr, 1) != LDAP_SUCCESS)
      return LDAP_DECODING_ERROR;
    return code;
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::LdapDriver)
