#pragma once
/// OpenDKIM's own files, read unchanged: KeyTable, SigningTable, lists of hosts, opendkim.conf.
///
/// Use:     auto entries = parse_data_set(text, "/etc/opendkim/key.table");
///          auto table = SigningTable::of(*std::move(entries), patterns);    for (auto* hit : table.find(from, all)) …
///          auto conf = OpendkimConf::parse(text, "/etc/opendkim.conf");
/// Errors:  syntax, with file and line.
/// Source:  opendkim.conf(5), opendkim(8) "Data sets". Pure.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/trust/dkim/error.h"

namespace pen::dkim {

/// A line: what stands before the first blank, and what follows it.
struct DataEntry {
  std::string key, value;
  unsigned line = 0;
};
/// Lines without comments (from # on) and without empty ones.
std::vector<DataEntry> parse_data_set(std::string_view text);

/// A value of a KeyTable: DOMAIN:SELECTOR:KEY.
struct KeyEntry {
  std::string domain, selector;
  std::string key;  // a file (is_file), or the key itself
  bool is_file() const;
  /// sender_domain: in place of % for the domain, and of % in a file's name. A domain that cannot be part of a file's
  /// name is refused there. where: for errors.
  static Result<KeyEntry> parse(std::string_view value, std::string_view sender_domain, const std::string& where);
};

/// A value of a SigningTable: KEY[:SIGNER], several of them separated by commas.
struct SigningEntry {
  std::string key;     // a name in the KeyTable
  std::string signer;  // i=; empty: none
  static std::vector<SigningEntry> parse(std::string_view value, std::string_view sender_domain);
};

/// Whether text is what the pattern says, where * stands for any text; in any case.
bool wildcard_match(std::string_view pattern, std::string_view text);

/// The keys under which an address is looked up where they are no patterns, in order.
std::vector<std::string> signing_keys(std::string_view address);

class SigningTable {
 public:
  /// patterns: of a refile.
  static SigningTable of(std::vector<DataEntry> entries, bool patterns);
  /// The first entry for the address, or all in order.
  std::vector<const DataEntry*> find(std::string_view address, bool all) const;
  const std::vector<DataEntry>& entries() const { return entries_; }

 private:
  std::vector<DataEntry> entries_;
  bool patterns_ = false;
  // In lower case, and for patterns without a first *, if there is no other: found without trying each line.
  std::unordered_map<std::string, std::vector<std::size_t>> plain_;
  std::vector<std::size_t> others_;
};

/// What of an opendkim.conf means something here.
struct OpendkimConf {
  struct Source {  // a data set
    enum class Kind : std::uint8_t { list, file, patterns, other } kind = Kind::list;
    std::string text;  // the list, or the file's name; other: the whole text
    static Source of(std::string_view value);
  };
  std::vector<std::string> domains;  // "*": every domain
  bool domain_patterns = false;      // they are those of a refile: * stands for any text
  std::string selector, key_file;
  bool sub_domains = false;
  std::optional<Source> key_table, signing_table, internal_hosts, ignored_hosts;
  std::string canonicalization = "simple/simple";
  bool signs = true;         // Mode has s
  bool all_matches = false;  // MultipleSignatures
  bool safe_keys = true;     // RequireSafeKeys
  std::optional<std::vector<std::string>> sign_headers, oversign_headers;
  std::vector<std::string> omit_headers;               // are not signed, even if another list names them
  std::vector<std::string> sender_headers = {"From"};  // the first of them that is there names the author
  std::uint64_t signature_ttl = 0;                     // seconds
  std::vector<std::string> notes{};                    // "FILE:LINE: …": options without effect

  /// The text of another file that this one names: by Include, or with a list in it.
  using Read = std::function<Result<std::string>(const std::string& file)>;
  static Result<OpendkimConf> parse(std::string_view text, const std::string& file, const Read& read = {});
  static constexpr int kMostIncludes = 5;  // within each other
};

}  // namespace pen::dkim
