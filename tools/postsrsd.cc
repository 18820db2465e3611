#include "tools/postsrsd.h"

#include <algorithm>
#include <array>
#include <map>

#include "lib/base/text.h"
#include "lib/config/edit.h"
#include "lib/config/main_cf.h"

namespace pen::tools {
namespace {

/// What either form of configuration says.
struct Found {
  std::string domain = "$mydomain";  // what Debian's script asks postconf for
  std::string secrets = "/etc/postsrsd.secret";
  std::string separator, hash_length, hash_minimum;
  std::vector<std::string> exclude;
  std::vector<std::string> tables;  // as main.cf names them, without "/" behind localhost's names
};

std::string unquoted(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

/// NAME=value lines of a shell; comments and exports are left out.
void read_defaults(std::string_view text, Found& found) {
  std::string forward = "10001", reverse = "10002";
  for (auto line : split(text, "\n")) {
    line = trim(line);
    const auto equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    const auto name = line.substr(0, equals);
    const std::string value = unquoted(line.substr(equals + 1));
    if (value.empty()) continue;
    if (name == "SRS_DOMAIN" && !value.contains('`') && !value.contains('$')) found.domain = value;
    if (name == "SRS_SECRET") found.secrets = value;
    if (name == "SRS_SEPARATOR") found.separator = value;
    if (name == "SRS_HASHLENGTH") found.hash_length = value;
    if (name == "SRS_HASHMIN") found.hash_minimum = value;
    if (name == "SRS_EXCLUDE_DOMAINS") found.exclude = split_list(value);
    if (name == "SRS_FORWARD_PORT") forward = value;
    if (name == "SRS_REVERSE_PORT") reverse = value;
  }
  for (const auto& port : {forward, reverse})
    for (const char* host : {"localhost", "127.0.0.1", "[::1]"})
      found.tables.push_back(std::string("tcp:") + host + ":" + port);
}

/// name = value of postsrsd.conf; a value is a word, a string, or a list in braces.
void read_conf(std::string_view text, Found& found) {
  std::string socket = "unix:/var/spool/postfix/srs";
  std::vector<std::string> domains;
  for (auto line : split(text, "\n")) {
    line = trim(line);
    const auto equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    const auto name = trim(line.substr(0, equals));
    std::string_view rest = trim(line.substr(equals + 1));
    std::vector<std::string> items;
    if (rest.starts_with('{')) {
      rest = rest.substr(1, rest.find('}') - 1);
      for (const auto& item : split_list(rest)) items.push_back(unquoted(item));
    }
    const std::string value = unquoted(rest);
    if (name == "srs-domain" && !value.empty()) found.domain = value;
    if (name == "secrets-file") found.secrets = value;
    if (name == "separator") found.separator = value;
    if (name == "hash-length") found.hash_length = value;
    if (name == "hash-minimum") found.hash_minimum = value;
    if (name == "domains") domains = items;
    if (name == "socketmap") socket = value;
  }
  if (found.domain == "$mydomain" && !domains.empty()) found.domain = domains.front();
  // Postfix's programs name the socket as seen from their queue directory.
  constexpr std::string_view kQueue = "/var/spool/postfix/";
  std::string seen = socket;
  if (const auto at = seen.find(kQueue); at != std::string::npos) seen.erase(at, kQueue.size());
  for (const std::string& place : {socket, seen})
    for (const char* way : {":forward", ":reverse"}) found.tables.push_back("socketmap:" + place + way);
}

}  // namespace

Result<std::optional<TakenPostsrsd>> take_postsrsd(std::string_view main_cf, const PostsrsdFiles& files,
                                                   const std::string& secrets_here) {
  Found found;
  if (!files.defaults.empty()) read_defaults(files.defaults, found);
  if (!files.conf.empty()) read_conf(files.conf, found);
  static constexpr std::array<std::string_view, 3> kSettings = {"canonical_maps", "sender_canonical_maps",
                                                                "recipient_canonical_maps"};
  std::map<std::string, std::string> last;
  config::Problems ignored;
  for (const auto& a : config::parse_main_cf(main_cf, "main.cf", ignored))
    if (std::ranges::find(kSettings, a.name) != kSettings.end()) last.insert_or_assign(a.name, a.value);
  TakenPostsrsd out;
  std::vector<config::Edit> edits;
  for (const auto& [name, value] : last) {
    std::vector<std::string> kept;
    for (auto& table : split_list(value)) {
      if (std::ranges::find(found.tables, table) == found.tables.end()) {
        kept.push_back(std::move(table));
        continue;
      }
      out.dropped.push_back(
          {name + " " + table, "postsrsd is not asked: srs_domain has senders rewritten, of mail that is forwarded"});
    }
    if (kept.size() != split_list(value).size())
      edits.push_back({.kind = config::Edit::Kind::set, .name = name, .value = join(kept, ", ")});
  }
  if (edits.empty()) return std::optional<TakenPostsrsd>();
  const auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) edits.push_back({.kind = config::Edit::Kind::set, .name = name, .value = value});
  };
  set("srs_domain", found.domain);
  set("srs_secrets_file", secrets_here);
  set("srs_exclude_domains", join(found.exclude, ", "));
  set("srs_separator", found.separator);
  set("srs_hash_length", found.hash_length);
  // Its own default does not follow the length.
  set("srs_hash_minimum", found.hash_minimum.empty() && !found.hash_length.empty() ? "4" : found.hash_minimum);
  PEN_TRY_ASSIGN(out.main_cf, config::edit_main_cf(main_cf, edits));
  out.secrets_file = found.secrets;
  return std::optional(std::move(out));
}

}  // namespace pen::tools
