#include "tools/instance_status.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sysexits.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "lib/base/text.h"
#include "lib/config/key_process.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/setup.h"
#include "lib/suite/service/standby.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/output.h"
#include "tools/session_status.h"

namespace pen::tools {
namespace {

template <class... T>
std::string line(fmt::format_string<T...> format, T&&... values) {
  return fmt::format(format, std::forward<T>(values)...) + "\n";
}

/// A text made safe for a terminal: names and words of master.cf.
std::string text_of(const nlohmann::ordered_json& object, const char* name) {
  return printable(object.value(name, ""));
}

}  // namespace

nlohmann::ordered_json to_json(const SessionClasses& classes) {
  if (!classes) return {{"error", classes.error()}};
  auto list = nlohmann::ordered_json::array();
  for (const auto& c : classes->classes)
    list.push_back({{"class", c.mask},
                    {"total_limit", c.total},
                    {"refuse_limit", c.refuse},
                    {"incoming", c.incoming},
                    {"outgoing", c.outgoing},
                    {"refused", c.refused},
                    {"outgoing_waits", c.outgoing_waits}});
  return list;
}

std::string classes_table(const SessionClasses& classes) {
  if (!classes) return line("session classes: {}", classes.error());
  std::string out = line("{:<24} {:>9} {:>9} {:>12} {:>13} {:>9}", "session class", "incoming", "outgoing",
                         "total limit", "refuse limit", "refused");
  for (const auto& c : classes->classes)
    out += line("{:<24} {:>9} {:>9} {:>12} {:>13} {:>9}{}", c.mask, c.incoming, c.outgoing, c.total, c.refuse,
                c.refused, c.outgoing_waits ? "  outgoing mail waits" : "");
  return out;
}

std::string services_table(const nlohmann::ordered_json& status) {
  std::string text = line("{:<24} {:<20} {:>8} {:>9}  {}", "service", "state", "pid", "restarts", "program");
  for (const auto& s : status.value("services", nlohmann::ordered_json::array())) {
    const int service_pid = s.value("pid", 0);
    // Of a program that is not of master's version: after an upgrade that kept it.
    const std::string version = text_of(s, "version");
    const std::string other = version.empty() || version == text_of(status, "version") ? "" : " version " + version;
    text += line("{:<24} {:<20} {:>8} {:>9}  {}{}{}", text_of(s, "service"), text_of(s, "state"),
                 service_pid ? std::to_string(service_pid) : "-", s.value("restarts", 0), text_of(s, "program"), other,
                 s.contains("draining") && !s["draining"].empty() ? " (an old process is draining)" : "");
  }
  for (const auto& s : status.value("not_started", nlohmann::ordered_json::array())) {
    text += line("{:<24} not started: {}", text_of(s, "service"), text_of(s, "why"));
  }
  return text;
}

std::string confinement_table(const nlohmann::ordered_json& status, const confine::Offers& offers) {
  std::map<std::string, std::string> services;  // by what holds them
  for (const auto& s : status.value("services", nlohmann::ordered_json::array())) {
    if (const std::string held = text_of(s, "confined"); !held.empty()) {
      std::string& list = services[held];
      list += (list.empty() ? "" : " ") + text_of(s, "service");
    }
  }
  std::string text;
  for (const auto& [held, list] : services) text += line("confined ({}): {}", held, list);
  for (const std::string& missing : offers.missing()) text += line("confinement: {}", missing);
  return text;
}

namespace {

std::string name_of(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

/// The accounts of the programs; nothing for an instance of an ordinary user, where all is that user's.
std::optional<nlohmann::ordered_json> accounts(const config::Settings& settings) {
  if (::geteuid() != 0) return std::nullopt;
  const auto owners = service::owners(settings);
  if (!owners) return std::nullopt;
  return nlohmann::ordered_json{{"mail_owner", name_of(owners->mail.uid)}, {"queue_owner", name_of(owners->queue.uid)}};
}

std::string accounts_line(const nlohmann::ordered_json& all) {
  const std::string mail = text_of(all, "mail_owner"), queue = text_of(all, "queue_owner");
  if (mail == queue) return line("accounts: {}, which the queue belongs to as well", mail);
  return line("accounts: {}; the queue belongs to {}", mail, queue);
}

/// What reads private keys, by main.cf and master.cf as they are now.
std::string keys_word(const config::Config& config) {
  const std::string& name = config.settings().tls_key_service_name;
  if (config::key_socket(config)) return "held by the service " + name;
  if (!config.settings().tls_key_process) return "each program reads its own: tls_key_process = no";
  return "each program reads its own: master.cf has no service " + name;
}

std::string kept_line(const std::string& holder) {
  if (holder.empty()) return line("if master dies: its programs end with it");
  return line("if master dies: its programs go on, and the next one takes them over ({} keeps what is open)", holder);
}

/// A master that waits for the lease.
std::optional<service::Answering> waiting_standby(const config::Config& config) {
  if (config.settings().standby_lease == config::StandbyLease::none) return {};
  auto found = service::running_standby(config.directory());
  if (!found || !*found) return {};  // own_master() has the error too
  std::optional<service::Answering> standby = *std::move(found);
  const auto read = nlohmann::ordered_json::parse(standby->text, nullptr, false);
  if (!read.is_object() || read.value("state", "") == "active") return {};
  return standby;
}

/// What a master that waits for the lease says of itself. Returns nullopt if there is no such master.
std::optional<int> print_standby(const config::Config& config, bool json) {
  const auto standby = waiting_standby(config);
  if (!standby) return {};
  const auto read = nlohmann::ordered_json::parse(standby->text, nullptr, false);
  const std::string why = printable(read.value("why", ""), 500), now = printable(read.value("version", ""), 100);
  if (json)
    print(nlohmann::ordered_json{
              {"running", true}, {"standby", true}, {"master", standby->process.pid()}, {"version", now}, {"why", why}}
              .dump(2) +
          "\n");
  else
    print(line("the mail system waits as a standby: master pid {}, version {}: {}", standby->process.pid(), now, why));
  return EX_OK;
}

int print_without_master(const config::Config& config, bool json) {
  const WithoutMaster without = without_master(config);
  if (!json) return fail_with(without.status, without.text);
  nlohmann::ordered_json out = {{"running", false}, {"why", without.text}};
  if (without.keeper) out["keeper"] = *without.keeper;
  print(out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  return without.status;
}

/// All but the session classes.
nlohmann::ordered_json status_of(const config::Config& config, const service::Process& master) {
  nlohmann::ordered_json out;
  out["running"] = true;
  const std::ifstream file(service::state_directory(config.settings()) + "/master.status");
  std::ostringstream text;
  text << file.rdbuf();
  const auto read = nlohmann::ordered_json::parse(text.str(), nullptr, false);
  if (read.is_object()) out.update(read);
  out["master"] = master.pid();
  out["landlock"] = confine::kernel_offers().landlock;
  out["private_keys"] = keys_word(config);
  if (const auto all = accounts(config.settings())) out["accounts"] = *all;
  return out;
}

void print_tables(const nlohmann::ordered_json& out, const std::optional<SessionClasses>& classes) {
  print(line("the mail system is running: master pid {}, version {}", out.value("master", 0), text_of(out, "version")));
  print(services_table(out));
  if (out.contains("accounts")) print(accounts_line(out["accounts"]));
  if (::geteuid() != 0) print(line("accounts: {} alone, so one program can pass for another", name_of(::geteuid())));
  print(confinement_table(out, confine::kernel_offers()));
  print(line("private keys: {}", text_of(out, "private_keys")));
  if (out.contains("kept_by")) print(kept_line(text_of(out, "kept_by")));
  if (classes) print(classes_table(*classes));
}

}  // namespace

bool waits_as_standby(const config::Config& config) { return waiting_standby(config).has_value(); }

int print_status(const config::Config& config, bool json) {
  if (const auto status = print_standby(config, json)) return *status;
  const auto master = next_master(config);
  if (!master) return cannot_tell(master.error());
  if (!*master) return print_without_master(config, json);
  nlohmann::ordered_json out = status_of(config, **master);
  std::optional<SessionClasses> classes;
  if (!config.settings().session_classes.empty()) {
    classes = session_status(config);
    out["session_classes"] = to_json(*classes);
  }
  if (json)
    print(out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  else
    print_tables(out, classes);
  return EX_OK;
}

}  // namespace pen::tools
