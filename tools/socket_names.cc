#include "tools/socket_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/config/edit.h"
#include "lib/config/main_cf.h"
#include "lib/config/master_cf.h"
#include "lib/map/table_file.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/setup.h"
#include "tools/table_entries.h"

namespace pen::tools {
namespace {

using config::Problem;
using config::Service;
using config::ServiceType;
using config::Severity;

constexpr std::string_view kQueueDirectory = "/var/spool/postfix";  // Postfix's default
constexpr std::string_view kSaslPath = "smtpd_sasl_path";
// Names of the table type unix:, which is no socket.
constexpr std::string_view kTables[] = {"passwd.byname", "group.byname"};

bool ends_word(char c) { return ascii_space(c) || std::string_view(",;{}\"'").contains(c); }

/// Adds those that follow the word `scheme`.
void find(std::string_view text, std::string_view scheme, std::vector<SocketName>& found) {
  for (std::size_t at = 0; (at = text.find(scheme, at)) != std::string_view::npos;) {
    const std::size_t path = at + scheme.size();
    std::size_t start = at;
    while (start > 0 && !ends_word(text[start - 1]) && text[start - 1] != '=') --start;
    std::string_view before = text.substr(start, at - start);
    std::size_t end = path;
    while (end < text.size() && !ends_word(text[end])) ++end;
    at = end;
    if (!before.empty() && !before.ends_with(':')) continue;  // the end of another word
    if (!before.empty()) before.remove_suffix(1);
    std::string_view name = text.substr(path, end - path);
    if (before == "socketmap" || before.ends_with(":socketmap")) name = name.substr(0, name.rfind(':'));
    if (name.empty() || name.front() == '$' || std::ranges::find(kTables, name) != std::end(kTables)) continue;
    found.push_back({path, std::string(name), std::string(before)});
  }
}

/// The socket of smtpd_sasl_path: its value needs no "unix:".
std::optional<SocketName> sasl_socket(std::string_view value) {
  const std::size_t at = value.find_first_not_of(" \t");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view path = trim(value);
  if (path.starts_with("unix:") || path.starts_with("inet:") || path.starts_with('$')) return std::nullopt;
  return SocketName{at, std::string(path), {}};
}

/// Whether smtpd connects to what smtpd_sasl_path names.
bool logs_in(const config::Config& config) {
  return iequals(config.text("smtpd_sasl_auth_enable").value_or(""), "yes") &&
         iequals(config.text("smtpd_sasl_type").value_or(""), "dovecot");
}

config::Names names_of(std::string_view setting) {
  const config::Row* row = config::find_row(setting);
  return row != nullptr ? config::names_of(*row) : config::Names::nothing;
}

bool of_filters(std::string_view setting) { return names_of(setting) == config::Names::filters; }

std::vector<SocketName> in_value(std::string_view setting, std::string_view value) {
  auto found = socket_names(value, of_filters(setting));
  if (setting == kSaslPath)
    if (auto one = sasl_socket(value)) found.push_back(*std::move(one));
  return found;
}

/// Puts the value in the place of $queue_directory. Returns whether it was there.
bool fill_in(std::string& line, const std::string& queue_directory) {
  bool any = false;
  for (const std::string_view name : {"$queue_directory", "${queue_directory}", "$(queue_directory)"}) {
    for (std::size_t at = 0; (at = line.find(name, at)) != std::string::npos;) {
      const std::size_t end = at + name.size();
      const bool longer = name.back() == 'y' && end < line.size() && (ascii_alnum(line[end]) || line[end] == '_');
      if (longer || (at > 0 && line[at - 1] == '$')) {
        at = end;
        continue;
      }
      line.replace(at, name.size(), queue_directory);
      at += queue_directory.size();
      any = true;
    }
  }
  return any;
}

/// The server that makes it, as far as the setting says.
std::string_view server_of(std::string_view setting, const SocketName& socket) {
  if (setting == kSaslPath) return "Dovecot, whose service auth";
  if (socket.transport.ends_with("socketmap")) return "the table server that";
  if (socket.transport == "lmtp" || socket.transport.ends_with("lmtp")) return "the LMTP server that";
  if (of_filters(setting)) return "the filter that";
  return names_of(setting) == config::Names::restrictions ? "the policy server that" : "the server that";
}

/// For accounts that may not open what Dovecot made for Postfix.
std::string listener_for(std::string_view setting, const SocketName& socket, const config::Settings& s) {
  const bool logins = setting == kSaslPath;
  if (!logins && !socket.transport.ends_with("lmtp")) return {};
  const std::string name = logins ? "private/auth" : "private/dovecot-lmtp";
  return fmt::format("; in Dovecot, in service {}: unix_listener {}/{} {{ mode = 0660 user = {} }}, and here {}",
                     logins ? "auth" : "lmtp", s.queue_directory, name, s.mail_owner,
                     logins ? name : "lmtp:unix:" + name);
}

/// Whether a server accepts connections there. What is no stream socket is not asked.
bool nobody_listens(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) return false;
  path.copy(at.sun_path, path.size());
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 && errno == ECONNREFUSED;
}

class Import {
 public:
  explicit Import(const PostfixFiles& files)
      : files_(files),
        config_(config::Config::parse({files.directory, files.main, files.master, {}}, config::system_surroundings())),
        own_(sockets_of(config_.master())) {
    config::Problems ignored;
    services_ = config::parse_master_cf(files.master, "master.cf", ignored);  // with the chroot column as it is
    const bool set = config_.where("queue_directory").has_value();
    out_.queue_directory = set ? config_.settings().queue_directory : std::string(kQueueDirectory);
    // Postfix takes "-" as y below level 1, which is the one of a file that sets none.
    const auto below = config_.expand("${{$compatibility_level} <level {1} ? {yes} : {no}}");
    usual_chroot_ = !config_.where("compatibility_level") || (below && *below == "yes");
    dovecot_ = iequals(config_.text("smtpd_sasl_type").value_or(""), "dovecot");
    for (const Service& s : services_)
      for (const auto& a : s.overrides)
        dovecot_ = dovecot_ || (a.name == "smtpd_sasl_type" && iequals(a.value, "dovecot"));
  }

  AbsoluteSockets run() {
    main();
    master();
    return std::move(out_);
  }

 private:
  /// Whether Postfix runs all the services that fit below its queue directory. Without any: no.
  bool below_queue(const std::function<bool(const Service&)>& fits) const {
    bool any = false;
    for (const Service& s : services_) {
      if (!fits(s)) continue;
      any = true;
      if (!is_chrooted(s)) return false;
    }
    return any;
  }
  bool is_chrooted(const Service& s) const { return s.columns[4] == "-" ? usual_chroot_ : s.chroot; }

  /// Whether the program that connects runs below the queue directory. of: the service with this -o; nullptr:
  /// main.cf.
  bool below_queue(std::string_view setting, const SocketName& socket, const Service* of) const {
    if (const std::string_view table = socket.transport; map::without_adapters(table) == "socketmap") {
      if (table.contains("proxy:")) return false;
      if (of != nullptr) return is_chrooted(*of);
      const std::string_view program = setting.substr(0, setting.find('_'));
      return below_queue([&](const Service& s) { return s.command == program; });
    }
    if (!socket.transport.empty())
      return below_queue(
          [&](const Service& s) { return s.name == socket.transport && s.type == ServiceType::unix_stream; });
    if (of != nullptr) return is_chrooted(*of);
    const std::string_view program = setting == "non_smtpd_milters" ? "cleanup" : "smtpd";
    return below_queue([&](const Service& s) { return s.command == program; });
  }

  /// The path as all programs find it; empty: as it is written.
  std::string absolute(std::string_view setting, const SocketName& socket, const Service* of) const {
    const std::string& queue = out_.queue_directory;
    if (!socket.path.starts_with('/')) return own_.contains(socket.path) ? std::string() : queue + "/" + socket.path;
    const bool there_already = socket.path.starts_with(queue + "/");
    return !there_already && below_queue(setting, socket, of) ? queue + socket.path : std::string();
  }

  void tell(const char* file, int line, const std::string& name, std::string text) {
    out_.changes.push_back({Severity::note, files_.directory + "/" + file, line, name, std::move(text)});
  }
  void tell(const char* file, int line, const std::string& name, const SocketName& socket, const std::string& now) {
    const std::string why = socket.path.starts_with('/')
                                ? "with chroot y Postfix finds it below its queue directory"
                                : "a path without / is below queue_directory, and Postfix's is not the one used here";
    tell(file, line, name, fmt::format("the socket {} is written as {}: {}", printable(socket.path, 100), now, why));
  }

  /// Changes the path in the line, where it is.
  static void put(std::string& line, const SocketName& socket, const std::string& now) {
    line.replace(socket.at, socket.path.size(), now);
  }

  void main() {
    config::Problems ignored;
    auto lines = config::physical_lines(files_.main);
    for (const auto& logical : config::logical_lines(files_.main, "main.cf", ignored)) {
      config::Assignment a;
      if (!config::parse_assignment(logical.text, a).empty()) continue;
      const std::string name = a.name;
      for (int i = logical.first; i <= logical.last; ++i) {
        std::string& line = lines[static_cast<std::size_t>(i - 1)];
        if (config::is_comment(line)) continue;
        if (fill_in(line, out_.queue_directory))
          tell("main.cf", i, name, "$queue_directory is written as " + out_.queue_directory + ", which is Postfix's");
        const std::size_t begin = i == logical.first ? line.find('=') + 1 : 0;
        auto found = in_value(name, std::string_view(line).substr(begin));
        if (name == kSaslPath && !dovecot_) continue;  // the name of an application
        std::ranges::sort(found, std::greater<>(), &SocketName::at);
        for (SocketName& socket : found) {
          socket.at += begin;
          const std::string now = absolute(name, socket, nullptr);
          if (now.empty()) continue;
          put(line, socket, now);
          tell("main.cf", i, name, socket, now);
        }
      }
    }
    for (const auto& line : lines) out_.main += line + "\n";
  }

  void master() {
    config::Problems ignored;
    auto lines = config::physical_lines(files_.master);
    for (const auto& logical : config::logical_lines(files_.master, "master.cf", ignored)) {
      config::Problems problems;
      const auto parsed = config::parse_master_cf(logical.text, "master.cf", problems);
      if (parsed.size() != 1) continue;
      const Service& service = parsed[0];
      for (int i = logical.first; i <= logical.last; ++i) {
        std::string& line = lines[static_cast<std::size_t>(i - 1)];
        if (config::is_comment(line)) continue;
        if (fill_in(line, out_.queue_directory))
          tell("master.cf", i, service.label(),
               "$queue_directory is written as " + out_.queue_directory + ", which is Postfix's");
        for (const auto& a : service.overrides) override_in(line, i, service, a);
      }
    }
    for (const auto& line : lines) out_.master += line + "\n";
  }

  /// Changes the sockets of one -o where they are in the line; not those of a command's own words.
  void override_in(std::string& line, int number, const Service& service, const config::Assignment& a) {
    if (a.name == kSaslPath) {
      if (!dovecot_) return;
      const std::size_t name = line.find(a.name), equals = name == std::string::npos ? name : line.find('=', name);
      if (equals == std::string::npos) return;
      auto socket = sasl_socket(a.value);
      const std::size_t at = socket ? line.find(socket->path, equals) : std::string::npos;
      if (at != std::string::npos) {
        socket->at = at;
        change(line, number, service, a.name, *socket);
        return;
      }
    }
    const auto of_value = in_value(a.name, a.value);
    auto found = socket_names(line, of_filters(a.name));
    std::ranges::sort(found, std::greater<>(), &SocketName::at);
    for (const SocketName& socket : found) {
      const bool meant = std::ranges::any_of(
          of_value, [&](const auto& v) { return v.path == socket.path && v.transport == socket.transport; });
      if (meant) change(line, number, service, a.name, socket);
    }
  }

  void change(std::string& line, int number, const Service& service, const std::string& name,
              const SocketName& socket) {
    const std::string now = absolute(name, socket, &service);
    if (now.empty()) return;
    put(line, socket, now);
    tell("master.cf", number, name, socket, now);
  }

  const PostfixFiles& files_;
  config::Config config_;
  std::set<std::string> own_;
  std::vector<Service> services_;
  bool usual_chroot_ = false, dovecot_ = false;
  AbsoluteSockets out_;
};

}  // namespace

std::vector<SocketName> socket_names(std::string_view text, bool filters) {
  std::vector<SocketName> found;
  find(text, "unix:", found);
  if (filters) find(text, "local:", found);
  return found;
}

std::set<std::string> sockets_of(const std::vector<Service>& services) {
  std::set<std::string> made;
  for (const Service& s : services)
    if (s.type == ServiceType::unix_stream || s.type == ServiceType::fifo)
      made.insert((s.is_private ? "private/" : "public/") + s.name);
  return made;
}

AbsoluteSockets absolute_sockets(const PostfixFiles& files) { return Import(files).run(); }

namespace {

/// Looks at each socket once.
class SocketCheck {
 public:
  explicit SocketCheck(const config::Config& config)
      : config_(config), own_(sockets_of(config.master())), owner_(service::mail_owner(config.settings())) {}

  config::Problems run() {
    for (const std::string& name : config_.names_set())
      look(config_, name, config_.where(name).value_or(config::Place{config_.main_file(), 0}));
    for (const Service& service : config_.master()) {
      if (service.overrides.empty()) continue;
      const config::Config with = config_.with(service);
      for (const auto& a : service.overrides) look(with, a.name, {config_.master_file(), service.line});
    }
    return std::move(found_);
  }

 private:
  void look(const config::Config& with, const std::string& name, const config::Place& place) {
    const config::Row* row = config::find_row(name);
    if (row != nullptr && row->kind != config::Class::acts) return;
    if (name == kSaslPath && !logs_in(with)) return;
    for (const SocketName& socket : in_value(name, with.text(name).value_or(""))) judge(name, socket, place);
    const bool filters = name == "smtpd_milter_maps";
    if (!filters && !has_routes(name)) return;
    for (const PlacedEntry& entry : table_entries(with, with.list(name).value_or(std::vector<std::string>())))
      for (const SocketName& socket : socket_names(entry.value, filters))
        judge(name, socket, entry.file.empty() ? place : config::Place{entry.file, static_cast<int>(entry.line)});
  }

  /// Whether values in its tables are transports with next hops.
  static bool has_routes(std::string_view setting) {
    constexpr std::string_view kRoutes[] = {"transport_maps", "mailbox_transport_maps", "fallback_transport_maps",
                                            "sender_dependent_default_transport_maps"};
    return std::ranges::find(kRoutes, setting) != std::end(kRoutes);
  }

  void judge(const std::string& name, const SocketName& socket, const config::Place& place) {
    const bool relative = !socket.path.starts_with('/');
    if (relative && own_.contains(socket.path)) return;
    const std::string path = relative ? config_.settings().queue_directory + "/" + socket.path : socket.path;
    if (!told_.insert(path).second) return;
    const auto say = [&](const std::string& what) {
      found_.push_back({Severity::warning, place.file, place.line, name, what});
    };
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) return;  // not for us to see
      return say(fmt::format("{} is not there: start {} makes it, or write where its socket is{}", printable(path, 120),
                             server_of(name, socket), relative ? "; a path without / is below queue_directory" : ""));
    }
    if (!S_ISSOCK(st.st_mode)) return say(printable(path, 120) + " is no socket: write where the server's socket is");
    if (nobody_listens(path))
      say(fmt::format("nobody listens on {}: start {} makes it", printable(path, 120), server_of(name, socket)));
    if (!owner_) return;
    const service::AsAccount as(*owner_);
    if (!as.ok() || ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return;
    say(fmt::format(
        "{0} cannot be reached by mail_owner ({1}): let its server have one that {1} may open, in a directory that "
        "others may enter{2}",
        printable(path, 120), config_.settings().mail_owner, listener_for(name, socket, config_.settings())));
  }

  const config::Config& config_;
  std::set<std::string> own_;
  Result<service::Account> owner_;
  std::set<std::string> told_;
  config::Problems found_;
};

}  // namespace

config::Problems socket_problems(const config::Config& config) { return SocketCheck(config).run(); }

}  // namespace pen::tools
