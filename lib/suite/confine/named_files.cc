#include "lib/suite/confine/named_files.h"

#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "lib/base/fd.h"
#include "lib/base/regular_file.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/suite/confine/programs.h"

namespace pen::confine {
namespace {

constexpr std::array<std::string_view, 7> kDatabases = {"mysql",   "pgsql", "ldap",    "sqlite",
                                                        "mongodb", "redis", "memcache"};
/// &: between the options of a URI.
bool is_end(char c) { return ascii_space(c) || std::string_view(",{}=&\"'").contains(c); }

std::optional<std::uint16_t> number(std::string_view text) {
  std::uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

/// The parts of a word between colons. Brackets hold addresses, whose colons do not count.
std::vector<std::string_view> parts(std::string_view word) {
  std::vector<std::string_view> out;
  std::size_t from = 0, depth = 0;
  for (std::size_t i = 0; i <= word.size(); ++i) {
    if (i < word.size() && word[i] == '[') ++depth;
    if (i < word.size() && word[i] == ']' && depth > 0) --depth;
    if (i < word.size() && (word[i] != ':' || depth > 0)) continue;
    out.push_back(word.substr(from, i - from));
    from = i + 1;
  }
  return out;
}

/// How much of a text names something.
enum class Form : std::uint8_t {
  setting,  // a value of main.cf, or a file of such values: every path, every port
  table,    // entries of a table: what stands behind a colon or an equals sign, and servers with their type
};

class Finder {
 public:
  Finder(const Machine& machine, Named& out, bool follow) : machine_(machine), out_(out), follow_(follow) {}

  void text(std::string_view value, Form form, int depth) {
    for (std::size_t i = 0; i < value.size();) {
      if (is_end(value[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < value.size() && !is_end(value[end])) ++end;
      const bool bare = form == Form::table && (i == 0 || value[i - 1] != '=');
      word(value.substr(i, end - i), form, bare, depth);
      i = end;
    }
  }

 private:
  /// bare: a path alone is not a file's name but a pattern.
  void word(std::string_view w, Form form, bool bare, int depth) {
    while (w.starts_with('!')) w.remove_prefix(1);
    while (w.starts_with("proxy:") || w.starts_with("debug:")) w.remove_prefix(6);
    const auto all = parts(w);
    const std::string_view type = all.front();
    if (type == "unix" || type == "local") return;  // a socket: connecting needs no right to read
    if (type == "https" || type == "http") return;
    if (type == "pcre") out_.machine_code = true;
    const bool database = std::ranges::count(kDatabases, type) != 0;
    if (database && type != "sqlite") out_.any_port = true;  // its servers stand in its file
    if (const auto slash = w.find('/'); slash != std::string_view::npos && (slash == 0 || w[slash - 1] == ':')) {
      const std::string_view path = w.substr(slash);
      const bool named = path.size() > 1 && !path.starts_with("//") && !(bare && slash == 0);
      if (named) file(std::string(path), database || slash == 0 || follow_ ? Form::setting : Form::table, depth);
      return;
    }
    server(all, form);
  }

  /// form: of what the file holds.
  void file(const std::string& path, Form form, int depth) {
    const bool fresh = out_.paths.insert(path).second;
    if (!fresh || depth >= Named::kMaxDepth) return;
    if (const auto content = machine_.read(path)) text(*content, form, depth + 1);
  }

  void server(const std::vector<std::string_view>& all, Form form) {
    const bool inet = all.front() == "inet" || all.front() == "inet6" || all.front() == "tcp" ||
                      (all.size() > 2 && all.front() == "socketmap" && all[1] == "inet");
    if (!inet && form == Form::table) return;  // an address of version 6 has colons too
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (const auto port = number(all[i])) out_.ports.insert(*port);
    }
    if (!inet || all.size() < 3) return;
    const std::string name(all[all.front() == "socketmap" ? std::min<std::size_t>(3, all.size() - 1) : 2]);
    if (number(name)) return;
    if (const auto port = machine_.port(name))
      out_.ports.insert(*port);
    else if (form == Form::setting)
      out_.any_port = true;
  }

  const Machine& machine_;
  Named& out_;
  bool follow_;  // what stands in tables and files names files
};

// What trivial-rewrite finds out about a destination names files that smtp opens.
constexpr std::array<std::string_view, 3> kToldToSmtp = {"smtp_mta_sts_CAfile", "smtp_tls_policy_maps",
                                                         "lmtp_tls_policy_maps"};

bool may_open(const config::Row& row, std::string_view program) {
  return (program == "smtp" && std::ranges::count(kToldToSmtp, row.name) != 0) || reads(row, program);
}

std::optional<std::string> read_beginning(const std::string& path) {
  const auto fd = open_regular_file(path);
  return fd ? beginning_of(*fd) : std::nullopt;
}

bool closed_by_mode(const std::string& path) {
  struct stat st{};
  return ::geteuid() == 0 && ::stat(path.c_str(), &st) == 0 && st.st_uid == 0 &&
         (st.st_mode & (S_IRGRP | S_IROTH)) == 0;
}

std::optional<std::uint16_t> port_of(const std::string& name) { return tcp_port(name); }

/// What the options of applications name: sasldb, databases, files of other libraries.
void add_cyrus(const config::Config& config, const Machine& machine, Named& out) {
  for (const std::string& application : config::cyrus_applications(config)) {
    config::CyrusOptions options;
    for (const std::string& file : config::cyrus_option_files(config, application)) {
      const auto text = machine.read(file);
      if (!text) continue;
      options = config::CyrusOptions::parse(*text).value_or(config::CyrusOptions());
      break;
    }
    for (const auto& [name, value] : options.all()) add_named(name, value, machine, out);
    const auto sasldb = config::cyrus_needs(options).sasldb;
    if (sasldb) out.paths.insert({*sasldb, config::below_postfix(*sasldb)});
  }
}

}  // namespace

std::optional<std::string> beginning_of(const Fd& file) {
  std::string text(Named::kMaxScanned, '\0');
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  if (n < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(n));
  if (text.contains('\0')) return std::nullopt;  // no text
  return text;
}

Machine real_machine() { return {.read = read_beginning, .port = port_of, .closed = closed_by_mode}; }

void add_named(std::string_view setting, std::string_view value, const Machine& machine, Named& out) {
  using config::Names;
  const config::Row* row = config::find_row(setting);
  const auto text = [&](bool follow) { Finder(machine, out, follow).text(value, Form::setting, 0); };
  const auto paths = [&] {
    const bool list = row != nullptr && row->type == config::Type::list;
    const std::vector<std::string> items =
        list ? split_list(value) : std::vector<std::string>{std::string(trim(value))};
    std::ranges::copy_if(items, std::inserter(out.paths, out.paths.end()),
                         [](const std::string& item) { return item.starts_with('/') && !item.contains('\n'); });
  };
  if (row == nullptr) {  // a name that only main.cf has
    text(false);
    return paths();
  }
  switch (config::names_of(*row)) {
    case Names::tables:
    case Names::strings:
    case Names::domains:
    case Names::hosts:
    case Names::networks:
    case Names::restrictions:
    case Names::conditions:
    case Names::filters:
    case Names::servers:
      return text(false);
    case Names::key_tables:
    case Names::file_lists:
      return text(true);
    case Names::file:
    case Names::keys:
    case Names::certificates:
    case Names::directory:
      return paths();
    case Names::nothing:
    case Names::written:
      return;
  }
}

Named named_by(const config::Config& config, std::string_view program, const Machine& machine, const Skip& skip) {
  Named out;
  for (const config::Row& row : config::rows()) {
    if (!may_open(row, program) || (skip && skip(row.name))) continue;
    // Set, or the default, but not in use.
    if (row.name == "destdb_redis_server" && config.settings().destdb_backend != config::DestdbBackend::redis) continue;
    if (const auto value = config.text(row.name)) add_named(row.name, *value, machine, out);
  }
  for (const std::string& name : config.names_set()) {
    if (config::find_row(name) != nullptr) continue;
    if (const auto value = config.text(name)) add_named(name, *value, machine, out);
  }
  for (const config::Service& service : config.master()) {
    for (const auto& o : service.overrides) {
      const config::Row* row = config::find_row(o.name);
      if (row != nullptr && (!may_open(*row, program) || (skip && skip(row->name)))) continue;
      if (const auto value = config.expand(o.value)) add_named(o.name, *value, machine, out);
    }
  }
  if (program == config::kCyrusProgram) add_cyrus(config, machine, out);
  return out;
}

}  // namespace pen::confine
