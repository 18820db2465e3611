#include "lib/dkim/opendkim_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/dkim/canonical.h"
#include "lib/mail/address.h"

namespace pen::dkim {
namespace {

bool path_like(std::string_view text) {
  return text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
}

void replace_all(std::string& text, char what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, 1, with);
}

/// Calls take(line, number) for each line that says something.
template <class Take>
void each_line(std::string_view text, Take take) {
  for (unsigned number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    line = trim(line.substr(0, line.find('#')));
    if (!line.empty()) take(line, number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

DataEntry entry_of(std::string_view line, unsigned number) {
  const auto blank = line.find_first_of(" \t");
  return {std::string(line.substr(0, blank)),
          blank == std::string_view::npos ? std::string() : std::string(trim(line.substr(blank))), number};
}

std::optional<bool> boolean(std::string_view value) {
  if (value.empty()) return std::nullopt;
  switch (value.front()) {
    case 'T':
    case 't':
    case 'Y':
    case 'y':
    case '1':
      return true;
    case 'F':
    case 'f':
    case 'N':
    case 'n':
    case '0':
      return false;
    default:
      return std::nullopt;
  }
}

/// Options that say how OpenDKIM itself runs, which nobody misses here.
constexpr std::array<std::string_view, 22> kOfTheDaemon = {"syslog",
                                                           "syslogsuccess",
                                                           "syslogfacility",
                                                           "logwhy",
                                                           "logresults",
                                                           "socket",
                                                           "pidfile",
                                                           "userid",
                                                           "umask",
                                                           "background",
                                                           "autorestart",
                                                           "basedirectory",
                                                           "autorestartrate",
                                                           "changerootdirectory",
                                                           "temporarydirectory",
                                                           "nameservers",
                                                           "trustanchorfile",
                                                           "resolverconfiguration",
                                                           "dnstimeout",
                                                           "milterdebug",
                                                           "maximumheaders",
                                                           "softwareheader"};

}  // namespace

std::vector<DataEntry> parse_data_set(std::string_view text) {
  std::vector<DataEntry> out;
  each_line(text, [&](std::string_view line, unsigned number) { out.push_back(entry_of(line, number)); });
  return out;
}

bool KeyEntry::is_file() const { return path_like(key); }

Result<KeyEntry> KeyEntry::parse(std::string_view value, std::string_view sender_domain, const std::string& where) {
  const auto bad = [&](const char* what) { return fail(DkimError::syntax, where + ": " + what); };
  const auto first = value.find(':');
  const auto second = first == std::string_view::npos ? first : value.find(':', first + 1);
  if (second == std::string_view::npos) return bad("not DOMAIN:SELECTOR:KEY");
  KeyEntry e;
  e.domain = trim(value.substr(0, first));
  e.selector = trim(value.substr(first + 1, second - first - 1));
  e.key = trim(value.substr(second + 1));
  if (e.domain == "%") e.domain = sender_domain;
  if (e.is_file() && e.key.contains('%')) {
    if (!mail::valid_hostname(sender_domain)) return bad("% in a file's name, for a domain that is none");
    replace_all(e.key, '%', sender_domain);
  }
  if (!mail::valid_hostname(e.domain)) return bad("no domain");
  if (!mail::valid_hostname("s." + e.selector)) return bad("no selector");
  if (e.key.empty()) return bad("no key");
  return e;
}

std::vector<SigningEntry> SigningEntry::parse(std::string_view value, std::string_view sender_domain) {
  std::vector<SigningEntry> out;
  for (const auto item : split(value, ",")) {
    const auto text = trim(item);
    if (text.empty()) continue;
    const auto colon = text.find(':');
    SigningEntry e;
    e.key = text.substr(0, colon);
    if (e.key == "%") e.key = sender_domain;
    if (colon != std::string_view::npos) e.signer = text.substr(colon + 1);
    replace_all(e.signer, '%', sender_domain);
    out.push_back(std::move(e));
  }
  return out;
}

bool wildcard_match(std::string_view pattern, std::string_view text) {
  // The text after the last * that matched is tried again one character later: linear space, no recursion.
  std::size_t p = 0, t = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && ascii_lower(pattern[p]) == ascii_lower(text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> signing_keys(std::string_view address) {
  const std::string user(mail::local_part(address)), host(mail::domain_part(address));
  std::vector<std::string> keys{user + "@" + host, host};
  std::vector<std::string> parents;
  for (auto dot = host.find('.'); dot != std::string::npos; dot = host.find('.', dot + 1))
    parents.push_back(host.substr(dot));
  for (const auto& parent : parents) keys.push_back(user + "@" + parent);
  keys.insert(keys.end(), parents.begin(), parents.end());
  keys.push_back(user + "@*");
  keys.emplace_back("*");
  return keys;
}

SigningTable SigningTable::of(std::vector<DataEntry> entries, bool patterns) {
  SigningTable table;
  table.entries_ = std::move(entries);
  table.patterns_ = patterns;
  for (std::size_t i = 0; i < table.entries_.size(); ++i) {
    std::string key = to_lower(table.entries_[i].key);
    if (patterns && key.starts_with("*@") && key.find('*', 1) == std::string::npos) key.erase(0, 1);
    if (patterns && key.contains('*'))
      table.others_.push_back(i);
    else
      table.plain_[key].push_back(i);
  }
  return table;
}

std::vector<const DataEntry*> SigningTable::find(std::string_view address, bool all) const {
  const std::string folded = to_lower(address);
  std::vector<std::size_t> hits;
  const auto add = [&](const std::string& key) {
    if (const auto found = plain_.find(key); found != plain_.end())
      hits.insert(hits.end(), found->second.begin(), found->second.end());
  };
  if (patterns_) {
    add(folded);
    add("@" + std::string(mail::domain_part(folded)));
    for (const std::size_t i : others_)
      if (wildcard_match(entries_[i].key, folded)) hits.push_back(i);
    std::ranges::sort(hits);
  } else {
    for (const auto& key : signing_keys(folded)) add(key);
  }
  if (!all && hits.size() > 1) hits.resize(1);
  std::vector<const DataEntry*> out;
  for (const std::size_t i : hits) out.push_back(&entries_[i]);
  return out;
}

OpendkimConf::Source OpendkimConf::Source::of(std::string_view value) {
  if (value.starts_with("file:")) return {Kind::file, std::string(value.substr(5))};
  if (value.starts_with("refile:")) return {Kind::patterns, std::string(value.substr(7))};
  if (value.starts_with("csl:")) return {Kind::list, std::string(value.substr(4))};
  if (path_like(value)) return {Kind::file, std::string(value)};
  const auto colon = value.find(':');
  const bool typed = colon != std::string_view::npos && value.find(',') == std::string_view::npos &&
                     std::ranges::all_of(value.substr(0, colon), [](char c) { return ascii_alpha(c); });
  return {typed ? Kind::other : Kind::list, std::string(value)};
}

Result<OpendkimConf> OpendkimConf::parse(std::string_view text, const std::string& file) {
  OpendkimConf conf;
  std::optional<Error> bad;
  const auto list = [](std::string_view value) {
    std::vector<std::string> out;
    for (const auto word : split(value)) out.emplace_back(word);
    return out;
  };
  each_line(text, [&](std::string_view line, unsigned number) {
    const DataEntry e = entry_of(line, number);
    const std::string name = to_lower(e.key), where = fmt::format("{}:{}: {}", file, number, printable(e.key, 60));
    const auto wrong = [&](const char* what) {
      if (!bad) bad = Error(DkimError::syntax, where + ": " + what);
    };
    const auto yes_no = [&](bool& to) {
      if (const auto value = boolean(e.value))
        to = *value;
      else
        wrong("neither yes nor no");
    };
    const auto names = [&](std::optional<std::vector<std::string>>& to) {
      if (Source::of(e.value).kind != Source::Kind::list) return wrong("only a list of names is read here");
      to = list(Source::of(e.value).text);
    };
    if (e.value.empty()) return wrong("no value");
    if (name == "domain") {
      if (Source::of(e.value).kind != Source::Kind::list) return wrong("only a list of domains is read here");
      conf.domains = list(Source::of(e.value).text);
    } else if (name == "selector") {
      conf.selector = e.value;
    } else if (name == "keyfile") {
      conf.key_file = e.value;
    } else if (name == "subdomains") {
      yes_no(conf.sub_domains);
    } else if (name == "keytable") {
      conf.key_table = Source::of(e.value);
    } else if (name == "signingtable") {
      conf.signing_table = Source::of(e.value);
    } else if (name == "internalhosts") {
      conf.internal_hosts = Source::of(e.value);
    } else if (name == "canonicalization") {
      if (!Canonicalization::parse(e.value)) return wrong("not simple or relaxed");
      conf.canonicalization = e.value;
    } else if (name == "mode") {
      conf.signs = e.value.contains('s');
    } else if (name == "multiplesignatures") {
      yes_no(conf.all_matches);
    } else if (name == "requiresafekeys") {
      yes_no(conf.safe_keys);
    } else if (name == "signheaders") {
      if (e.value.starts_with('*')) return wrong("changes to the default list are not read here: name all fields");
      names(conf.sign_headers);
    } else if (name == "oversignheaders") {
      names(conf.oversign_headers);
    } else if (name == "signaturettl") {
      const auto value = parse_unsigned(e.value);
      constexpr std::uint64_t kYear = 31536000;
      if (!value || *value > kYear) return wrong("not a number of seconds, at most a year");
      conf.signature_ttl = *value;
    } else if (name == "signaturealgorithm") {
      if (iequals(e.value, "rsa-sha1")) return wrong("rsa-sha1 is historic (RFC 8301): use rsa-sha256");
      if (!iequals(e.value, "rsa-sha256") && !iequals(e.value, "ed25519-sha256")) return wrong("not an algorithm");
      // The type of the key decides.
    } else if (std::ranges::find(kOfTheDaemon, name) == kOfTheDaemon.end()) {
      conf.notes.push_back(where + " has no effect here");
    }
  });
  if (bad) return fail(*std::move(bad));
  return conf;
}

}  // namespace pen::dkim
