#include "lib/trust/dkim/opendkim_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/dkim/canonical.h"

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
constexpr std::array<std::string_view, 21> kOfTheDaemon = {"syslog",
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
    const std::string key = idn::address_key(table.entries_[i].key);
    const bool whole_domain = key.starts_with("*@") && key.find('*', 1) == std::string::npos;
    if (patterns && key.contains('*') && !whole_domain)
      table.others_.push_back(i);
    else
      table.plain_[key].push_back(i);
  }
  return table;
}

std::vector<const DataEntry*> SigningTable::find(std::string_view address, bool all) const {
  const std::string folded = idn::address_key(address);
  std::vector<std::size_t> hits;
  const auto add = [&](const std::string& key) {
    if (const auto found = plain_.find(key); found != plain_.end())
      hits.insert(hits.end(), found->second.begin(), found->second.end());
  };
  if (patterns_) {
    add(folded);
    if (const std::string domain = "*@" + std::string(mail::domain_part(folded)); domain != folded) add(domain);
    for (const std::size_t i : others_)
      if (wildcard_match(entries_[i].key, folded) || wildcard_match(entries_[i].key, idn::fold(address)))
        hits.push_back(i);
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

namespace {

using Source = OpendkimConf::Source;
using Names = std::vector<std::string>;

Names list_of(std::string_view text) {
  Names out;
  for (const auto word : split(text)) out.emplace_back(word);
  return out;
}

bool is_named(const Names& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const std::string& n) { return iequals(n, name); });
}

/// RFC 6376 section 5.4.1, "should", and section 5.4, "should not".
Names signed_by_default() {
  return list_of(
      "From Reply-To Subject Date To Cc Resent-Date Resent-From Resent-To Resent-Cc In-Reply-To References List-Id "
      "List-Help List-Unsubscribe List-Subscribe List-Post List-Owner List-Archive");
}
Names omitted_by_default() { return list_of("Return-Path Received Comments Keywords Bcc Resent-Bcc DKIM-Signature"); }

/// Names, or changes to the default: "*,+X-Name,-Subject". Returns what is wrong; empty: nothing.
std::string apply_names(Names words, Names otherwise, Names& out, Names& passed_over) {
  if (!is_named(words, "*")) {
    for (const auto& word : words)
      if (word.starts_with('+') || word.starts_with('-')) return "+ and - change the default list, which is *";
    out = std::move(words);
    return {};
  }
  out = std::move(otherwise);
  for (const auto& word : words) {
    const std::string name = word.substr(1);
    if (word.starts_with('-'))
      std::erase_if(out, [&](const std::string& n) { return iequals(n, name); });
    else if (word.starts_with('+') && !is_named(out, name))
      out.push_back(name);
    else if (word != "*" && !word.starts_with('+'))
      passed_over.push_back(word);
  }
  return {};
}

class ConfReader {
 public:
  explicit ConfReader(const OpendkimConf::Read& read) : read_(read) { conf_.omit_headers = omitted_by_default(); }
  void file(std::string_view text, const std::string& name, int depth) {
    each_line(text, [&](std::string_view line, unsigned number) {
      const DataEntry e = entry_of(line, number);
      where_ = fmt::format("{}:{}: {}", name, number, printable(e.key, 60));
      if (e.value.empty()) return wrong("no value");
      option(to_lower(e.key), e.value, name, depth);
    });
  }
  Result<OpendkimConf> done() && {
    if (bad_) return fail(*std::move(bad_));
    return std::move(conf_);
  }

 private:
  void wrong(const std::string& what) {
    if (!bad_) bad_ = Error(DkimError::syntax, where_ + ": " + what);
  }
  void yes_no(const std::string& value, bool& to) {
    if (const auto word = boolean(value))
      to = *word;
    else
      wrong("neither yes nor no");
  }
  std::optional<std::string> text_of(std::string path, const std::string& beside) {
    if (!read_) {
      wrong("a file cannot be read here");
      return std::nullopt;
    }
    if (!path.starts_with('/')) path.insert(0, base_.empty() ? beside.substr(0, beside.rfind('/') + 1) : base_ + "/");
    auto text = read_(path);
    if (text) return *std::move(text);
    wrong(text.error().message());
    return std::nullopt;
  }
  /// The words of a list, or the first word of each line of a file.
  Names words(const std::string& value, const std::string& beside) {
    const Source source = Source::of(value);
    if (source.kind == Source::Kind::list) return list_of(source.text);
    Names out;
    if (source.kind == Source::Kind::other) {
      wrong("only a list or a file is read here");
    } else if (const auto text = text_of(source.text, beside)) {
      for (auto& entry : parse_data_set(*text)) out.push_back(std::move(entry.key));
    }
    return out;
  }
  std::optional<Names> names(const std::string& value, const std::string& beside) {
    if (Source::of(value).kind == Source::Kind::patterns) {
      wrong("names of header fields are no patterns");
      return std::nullopt;
    }
    return words(value, beside);
  }
  void changed(const std::string& value, const std::string& beside, Names otherwise, Names& to) {
    auto words = names(value, beside);
    if (!words) return;
    Names passed_over;
    const std::string what = apply_names(*std::move(words), std::move(otherwise), to, passed_over);
    if (!what.empty()) wrong(what);
    if (!passed_over.empty())
      conf_.notes.push_back(where_ + ": \"" + printable(join(passed_over), 100) +
                            "\" has no effect beside *: write + or - in front");
  }
  void option(const std::string& name, const std::string& value, const std::string& beside, int depth);

  const OpendkimConf::Read& read_;
  OpendkimConf conf_;
  std::string where_, base_;
  std::optional<Error> bad_;
};

void ConfReader::option(const std::string& name, const std::string& value, const std::string& beside, int depth) {
  if (name == "include") {
    if (depth >= OpendkimConf::kMostIncludes) return wrong("more than five files within each other");
    const auto text = text_of(value, beside);
    if (!text) return;
    const std::string slash = value.starts_with('/') ? "" : beside.substr(0, beside.rfind('/') + 1);
    file(*text, slash + value, depth + 1);
  } else if (name == "basedirectory") {
    base_ = value;
  } else if (name == "domain") {
    conf_.domain_patterns = Source::of(value).kind == Source::Kind::patterns;
    conf_.domains = words(value, beside);
  } else if (name == "selector") {
    conf_.selector = value;
  } else if (name == "keyfile") {
    conf_.key_file = value;
  } else if (name == "subdomains") {
    yes_no(value, conf_.sub_domains);
  } else if (name == "keytable") {
    conf_.key_table = Source::of(value);
  } else if (name == "signingtable") {
    conf_.signing_table = Source::of(value);
  } else if (name == "internalhosts") {
    conf_.internal_hosts = Source::of(value);
  } else if (name == "externalignorelist") {
    conf_.ignored_hosts = Source::of(value);
  } else if (name == "canonicalization") {
    if (!Canonicalization::parse(value)) return wrong("not simple or relaxed");
    conf_.canonicalization = value;
  } else if (name == "mode") {
    conf_.signs = value.contains('s');
  } else if (name == "multiplesignatures") {
    yes_no(value, conf_.all_matches);
  } else if (name == "requiresafekeys") {
    yes_no(value, conf_.safe_keys);
  } else if (name == "signheaders") {
    changed(value, beside, signed_by_default(), conf_.sign_headers.emplace());
  } else if (name == "omitheaders") {
    changed(value, beside, omitted_by_default(), conf_.omit_headers);
  } else if (name == "oversignheaders") {
    conf_.oversign_headers = names(value, beside);
  } else if (name == "senderheaders") {
    changed(value, beside, {"From"}, conf_.sender_headers);
  } else if (name == "signaturettl") {
    const auto time = parse_unsigned(value);
    constexpr std::uint64_t kYear = 31536000;
    if (!time || *time > kYear) return wrong("not a number of seconds, at most a year");
    conf_.signature_ttl = *time;
  } else if (name == "signaturealgorithm") {
    if (iequals(value, "rsa-sha1")) return wrong("rsa-sha1 is historic (RFC 8301): use rsa-sha256");
    if (!iequals(value, "rsa-sha256") && !iequals(value, "ed25519-sha256")) return wrong("not an algorithm");
    // The type of the key decides.
  } else if (std::ranges::find(kOfTheDaemon, name) == kOfTheDaemon.end()) {
    conf_.notes.push_back(where_ + " has no effect here");
  }
}

}  // namespace

Result<OpendkimConf> OpendkimConf::parse(std::string_view text, const std::string& file, const Read& read) {
  ConfReader reader(read);
  reader.file(text, file, 0);
  return std::move(reader).done();
}

}  // namespace pen::dkim
