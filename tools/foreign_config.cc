#include "tools/foreign_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "lib/base/text.h"
#include "lib/config/compatibility.h"
#include "lib/config/edit.h"
#include "lib/config/main_cf.h"
#include "lib/config/master_cf.h"

namespace pen::tools {
namespace {

// Programs, documents and rights of Postfix's package; here the defaults say where ours are.
constexpr std::string_view kOfInstallation[] = {"alternate_config_directories",
                                                "command_directory",
                                                "config_directory",
                                                "daemon_directory",
                                                "data_directory",
                                                "html_directory",
                                                "mail_owner",
                                                "mailq_path",
                                                "manpage_directory",
                                                "meta_directory",
                                                "multi_instance_directories",
                                                "multi_instance_enable",
                                                "multi_instance_group",
                                                "multi_instance_name",
                                                "multi_instance_wrapper",
                                                "newaliases_path",
                                                "openssl_path",
                                                "process_id_directory",
                                                "queue_directory",
                                                "readme_directory",
                                                "sample_directory",
                                                "sendmail_path",
                                                "setgid_group",
                                                "shlib_directory"};

bool ends_name(char c) { return ascii_space(c) || c == ',' || c == ';' || c == '}' || c == '{' || c == '"'; }

bool is_comment(std::string_view line) {
  line = trim(line);
  return line.empty() || line.front() == '#';
}

/// Whether a file moves; of a name with $, as forward_path has it, whether files move that begin as it does.
bool moves(std::string_view name, const std::set<std::string>& files) {
  const auto dollar = name.find('$');
  if (dollar == std::string_view::npos) return files.contains(std::string(name));
  const std::string begin(name.substr(0, dollar));
  const auto first = files.lower_bound(begin);
  return first != files.end() && first->starts_with(begin);
}

/// The text with names of files that move changed to where they go.
std::string moved_names(std::string_view text, const Moved& moved) {
  std::string out;
  while (!text.empty()) {
    const auto lf = text.find('\n');
    std::string line(text.substr(0, lf));
    text.remove_prefix(lf == std::string_view::npos ? text.size() : lf + 1);
    for (const auto& from : moved.from) {
      if (is_comment(line)) break;
      for (std::size_t at = 0; (at = line.find(from + "/", at)) != std::string::npos;) {
        const auto begin = at + from.size() + 1;
        const auto end = static_cast<std::size_t>(
            std::ranges::find_if(line.begin() + static_cast<std::ptrdiff_t>(begin), line.end(), ends_name) -
            line.begin());
        // Within a longer name it is another directory.
        const bool whole = at == 0 || (line[at - 1] != '/' && !ascii_alnum(line[at - 1]));
        if (whole && moves(line.substr(begin, end - begin), moved.files)) {
          line.replace(at, from.size(), moved.to);
          at += moved.to.size();
        } else {
          at = begin;
        }
      }
    }
    out += line + "\n";
  }
  return out;
}

/// Why a service is not kept; empty: it is.
std::string why_not(const config::Service& service) {
  // Their -o count for others: cleanup_service_name, and the smtpd that answers postscreen's port.
  if (service.command == "cleanup" || service.command == "postscreen" || config::is_own_program(service.command))
    return {};
  if (service.command == "oqmgr") return {};  // qmgr runs the line: without it nothing would be delivered
  if (const auto* note = config::note_on_program(service.command)) return std::string(note->text);
  return "there is no program " + printable(service.command, 60);
}

/// Why a setting of Postfix's installation is not kept.
std::string why_dropped(const config::Assignment& a) {
  if (a.name.starts_with("multi_instance_"))
    return "of Postfix's instances: penstock multi -e create makes ours (docs/instances.md): " + a.value;
  return "of Postfix's installation: " + a.value;
}

/// The line of a service with y in the fifth column changed to n; nothing else changes.
std::string without_chroot(const std::string& line) {
  std::size_t at = 0;
  for (int column = 0;; ++column) {
    while (at < line.size() && ascii_space(line[at])) ++at;
    if (column == 4) break;
    while (at < line.size() && !ascii_space(line[at])) ++at;
  }
  std::string out = line;
  if (at < out.size() && out[at] == 'y' && (at + 1 == out.size() || ascii_space(out[at + 1]))) out[at] = 'n';
  return out;
}

std::map<std::string, std::string, std::less<>> exim_settings(std::string_view text) {
  std::map<std::string, std::string, std::less<>> found;
  for (const auto line : split(text, "\n")) {
    const auto equals = line.find('=');
    if (is_comment(line) || equals == std::string_view::npos) continue;
    std::string_view value = trim(line.substr(equals + 1));
    if (value.size() >= 2 && (value.front() == '\'' || value.front() == '"') && value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    found.insert_or_assign(std::string(trim(line.substr(0, equals))), std::string(value));
  }
  return found;
}

/// A list of Exim's ("a : b", "<; a ; b" for IPv6) as items of ours.
std::vector<std::string> exim_list(std::string_view text) {
  char separator = ':';
  text = trim(text);
  if (text.size() > 1 && text.front() == '<') {
    separator = text[1];
    text.remove_prefix(2);
  } else if (text.contains(';')) {
    separator = ';';
  }
  std::vector<std::string> items;
  for (const auto item : split(text, std::string_view(&separator, 1)))
    if (!trim(item).empty()) items.emplace_back(trim(item));
  return items;
}

/// "host::port" and "host:port" as [host]:port; hosts of dc_smarthost have their addresses looked up, not their MX.
std::string exim_host(std::string_view item) {
  const auto colon = item.find(':');
  const auto host = trim(item.substr(0, colon));
  const auto port = colon == std::string_view::npos ? std::string_view() : trim(item.substr(item.rfind(':') + 1));
  return fmt::format("[{}]{}{}", host, port.empty() ? "" : ":", port);
}

/// What debconf has asked for the Exim of Debian, in settings of ours. Used once.
class EximSettings {
 public:
  EximSettings(const EximFiles& files, const std::string& directory)
      : files_(files), directory_(directory), given_(exim_settings(files.conf)) {}

  Result<EximConfig> translated() {
    static constexpr std::string_view kTypes[] = {"internet", "smarthost", "satellite", "local"};
    if (std::ranges::find(kTypes, type_) == std::end(kTypes))
      return fail(config::ConfigError::bad_value,
                  "dc_eximconfig_configtype is \"" + printable(type_, 60) +
                      "\", where internet, smarthost, satellite or local is expected: Exim is not set up yet");
    set("compatibility_level", "3.6");
    local_domains();
    interfaces();
    clients();
    next_hops();
    hidden_names();
    local_delivery();
    passwords();
    logins();
    addresses();
    if (value("dc_minimaldns") == "true") set("smtp_host_lookup", "native, dns");
    return std::move(out_);
  }

 private:
  std::string value(std::string_view name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? std::string() : found->second;
  }
  auto find(std::string_view name) {
    return std::ranges::find(out_.settings, name, &std::pair<std::string, std::string>::first);
  }
  void set(const char* name, std::string text) {
    if (const auto found = find(name); found != out_.settings.end())
      found->second = std::move(text);
    else
      out_.settings.emplace_back(name, std::move(text));
  }

  void local_domains() {
    const std::string mailname(trim(files_.mailname));
    set("myorigin", mailname.empty() ? "$myhostname" : mailname);
    // The names of the host itself are local for Exim in any case.
    std::vector<std::string> here = {"$myhostname", "localhost"};
    if (!satellite_ && !mailname.empty()) here.insert(here.begin(), mailname);
    for (const auto& item : exim_list(value("dc_other_hostnames")))
      if (std::ranges::find(here, item) == here.end()) here.push_back(item);
    set("mydestination", join(here, ", "));
  }

  void interfaces() {
    std::vector<std::string> interfaces;
    for (const auto& item : exim_list(value("dc_local_interfaces"))) {
      // A port behind a dot, as Exim writes it.
      const auto dots = std::ranges::count(item, '.');
      interfaces.push_back(dots == 4 ? item.substr(0, item.rfind('.')) : item);
      if (dots == 4) out_.dropped.push_back({"dc_local_interfaces " + item, "set the port in master.cf"});
    }
    set("inet_interfaces", interfaces.empty() ? "all" : join(interfaces, ", "));
  }

  /// Whose mail it passes on, and where to.
  void clients() {
    std::vector<std::string> networks = {"127.0.0.0/8", "[::1]/128"};
    for (const auto& item : exim_list(value("dc_relay_nets"))) {
      const bool bare6 = item.contains(':') && !item.starts_with('[');
      const auto slash = item.find('/');
      networks.push_back(!bare6                       ? item
                         : slash == std::string::npos ? "[" + item + "]"
                                                      : "[" + item.substr(0, slash) + "]" + item.substr(slash));
    }
    set("mynetworks", join(networks, ", "));
    set("relay_domains", join(exim_list(value("dc_relay_domains")), ", "));
    set("smtpd_relay_restrictions", "permit_mynetworks, reject_unauth_destination");
  }

  void next_hops() {
    if ((type_ == "smarthost" || satellite_) && !smart_.empty()) {
      // "host::port" is an empty item between two for the list: the whole is one host.
      const auto semicolon = smart_.find(';');
      set("relayhost", exim_host(trim(std::string_view(smart_).substr(0, semicolon))));
      if (semicolon != std::string::npos) {
        std::vector<std::string> more;
        for (const auto item : split(std::string_view(smart_).substr(semicolon + 1), ";"))
          if (!trim(item).empty()) more.push_back(exim_host(trim(item)));
        set("smtp_fallback_relay", join(more, ", "));
      }
    }
    if (type_ == "local") set("default_transport", "error: this host sends no mail to others");
  }

  /// What others see in place of the host's name.
  void hidden_names() {
    const std::string shown = value("dc_readhost");
    if (satellite_ && !shown.empty()) {
      set("masquerade_domains", shown);
      set("append_dot_mydomain", "no");
    } else if (value("dc_hide_mailname") == "true" && !shown.empty()) {
      set("myorigin", shown);
    }
  }

  void local_delivery() {
    const std::string delivery = value("dc_localdelivery");
    if (delivery == "maildir_home")
      set("home_mailbox", "Maildir/");
    else if (!delivery.empty() && delivery != "mail_spool")
      out_.dropped.push_back({"dc_localdelivery " + delivery, "mail goes to mail_spool_directory"});
    const std::string aliases = files_.aliases.empty() ? "" : "lmdb:" + files_.aliases;
    set("alias_maps", aliases);
    set("alias_database", aliases);
    set("recipient_delimiter", "");
    set("mailbox_size_limit", "0");
  }

  void passwords() {
    for (const auto line : split(files_.passwd_client, "\n")) {
      if (is_comment(line)) continue;
      const auto first = line.find(':');
      const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
      if (second == std::string_view::npos) continue;
      const auto host = trim(line.substr(0, first));
      const auto login = line.substr(first + 1, second - first - 1), password = line.substr(second + 1);
      // "*" is any host, which is the smart host.
      if (host == "*" && smart_.empty()) {
        out_.dropped.push_back({"passwd.client: * has a password for any host", "write the hosts in sasl_passwd"});
        continue;
      }
      const std::string key = host == "*" || smart_.starts_with(host) ? exim_host(smart_) : std::string(host);
      out_.passwords += fmt::format("{} {}:{}\n", key, login, password);
    }
  }

  void logins() {
    set("smtp_tls_security_level", "may");
    if (out_.passwords.empty()) return;
    set("smtp_sasl_auth_enable", "yes");
    set("smtp_sasl_password_maps", "texthash:" + directory_ + "/sasl_passwd");
    // Exim of Debian gives no password in clear text. With a smart host all mail goes by one that wants a password.
    set("smtp_sasl_security_options", "noanonymous, noplaintext");
    set("smtp_sasl_tls_security_options", "noanonymous");
    if (find("relayhost") != out_.settings.end()) set("smtp_tls_security_level", "encrypt");
  }

  void addresses() {
    for (const auto line : split(files_.addresses, "\n")) {
      const auto colon = line.find(':');
      if (is_comment(line) || colon == std::string_view::npos) continue;
      const auto user = trim(line.substr(0, colon)), address = trim(line.substr(colon + 1));
      if (!user.empty() && !address.empty() && address != "*") out_.generic += fmt::format("{} {}\n", user, address);
    }
    if (!out_.generic.empty()) set("smtp_generic_maps", "texthash:" + directory_ + "/generic");
  }

  const EximFiles& files_;
  const std::string& directory_;
  const std::map<std::string, std::string, std::less<>> given_;
  const std::string type_ = value("dc_eximconfig_configtype"), smart_ = value("dc_smarthost");
  const bool satellite_ = type_ == "satellite";
  EximConfig out_;
};

}  // namespace

bool is_of_installation(std::string_view name) { return std::ranges::binary_search(kOfInstallation, name); }

Result<ForeignText> from_postfix_main(std::string_view text, const Moved& moved) {
  ForeignText out;
  std::vector<config::Edit> edits;
  config::Problems ignored;
  for (const auto& a : config::parse_main_cf(text, "main.cf", ignored)) {
    if (!is_of_installation(a.name)) continue;
    const bool again = std::ranges::any_of(edits, [&](const auto& e) { return e.name == a.name; });
    if (again) continue;
    edits.push_back({.kind = config::Edit::Kind::comment_out, .name = a.name, .value = {}});
    out.dropped.push_back({a.name, why_dropped(a)});
  }
  PEN_TRY_ASSIGN(out.text, config::edit_main_cf(moved_names(text, moved), edits));
  return out;
}

ForeignText from_postfix_master(std::string_view text, const Moved& moved) {
  ForeignText out;
  config::Problems ignored;
  const std::string renamed = moved_names(text, moved);
  std::vector<std::string> lines;
  for (const auto line : std::string_view(renamed) | std::views::split('\n'))
    lines.emplace_back(line.begin(), line.end());
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::map<int, std::string> before;  // a comment before this line
  const auto all = config::parse_master_cf(renamed, "master.cf", ignored);
  const config::Service* manager = config::queue_manager(all);
  for (const auto& logical : config::logical_lines(renamed, "master.cf", ignored)) {
    config::Problems problems;
    const auto service = config::parse_master_cf(logical.text, "master.cf", problems);
    if (service.size() != 1) continue;  // penstock check says what is wrong with it
    const bool second = config::queue_manager(service) != nullptr && manager->label() != service[0].label();
    const std::string why = second ? std::string(config::kSecondQueueManager) : why_not(service[0]);
    auto& first = lines[static_cast<std::size_t>(logical.first - 1)];
    first = without_chroot(first);
    if (why.empty() && service[0].chroot) ++out.chrooted;
    if (why.empty()) continue;
    before[logical.first] = "# Not run here: " + why + ".";
    out.dropped.push_back({service[0].label(), why});
    for (int i = logical.first; i <= logical.last; ++i) {
      auto& line = lines[static_cast<std::size_t>(i - 1)];
      if (!is_comment(line)) line = "#" + line;
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto comment = before.find(static_cast<int>(i + 1));
    if (comment != before.end()) out.text += comment->second + "\n";
    out.text += lines[i] + "\n";
  }
  return out;
}

Result<EximConfig> from_exim(const EximFiles& files, const std::string& directory) {
  return EximSettings(files, directory).translated();
}

}  // namespace pen::tools
