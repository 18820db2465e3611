#include "tools/instance_status.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "lib/base/text.h"
#include "lib/service/lock.h"
#include "lib/service/setup.h"
#include "tools/instance_control.h"
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
    text += line("{:<24} {:<20} {:>8} {:>9}  {}{}", text_of(s, "service"), text_of(s, "state"),
                 service_pid ? std::to_string(service_pid) : "-", s.value("restarts", 0), text_of(s, "program"),
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

int print_status(const config::Config& config, bool json) {
  const std::string state = service::state_directory(config.settings());
  const auto master = service::running_master(state);
  if (!master) return cannot_tell(master.error());
  std::optional<pid_t> pid;
  if (*master) pid = (*master)->pid();
  nlohmann::ordered_json out;
  out["running"] = pid.has_value();
  if (pid) {
    const std::ifstream file(state + "/master.status");
    std::ostringstream text;
    text << file.rdbuf();
    const auto read = nlohmann::ordered_json::parse(text.str(), nullptr, false);
    if (read.is_object()) out.update(read);
    out["master"] = *pid;
    out["landlock"] = confine::kernel_offers().landlock;
  }
  std::optional<SessionClasses> classes;
  if (pid && !config.settings().session_classes.empty()) {
    classes = session_status(config);
    out["session_classes"] = to_json(*classes);
  }
  if (json) {
    print(out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return pid ? EX_OK : EX_UNAVAILABLE;
  }
  if (!pid) return fail_with(EX_UNAVAILABLE, "the mail system is not running");
  print(line("the mail system is running: master pid {}", *pid));
  print(services_table(out));
  print(confinement_table(out, confine::kernel_offers()));
  if (classes) print(classes_table(*classes));
  return EX_OK;
}

}  // namespace pen::tools
