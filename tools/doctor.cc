#include "tools/doctor.h"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "lib/suite/service/lock.h"
#include "lib/suite/service/running.h"
#include "tools/check.h"
#include "tools/doctor_judge.h"
#include "tools/doctor_names.h"
#include "tools/doctor_probes.h"
#include "tools/instance_control.h"

namespace pen::tools {
namespace {

/// Probes that run side by side. Each owns what it works with: one that is late is left behind.
class Probes {
 public:
  template <class Work>
  void add(std::string name, Work work) {
    std::promise<Findings> promise;
    running_.push_back({std::move(name), promise.get_future()});
    std::thread([promise = std::move(promise), work = std::move(work)]() mutable {
      promise.set_value(work());
    }).detach();
  }
  /// late: some did not end in time.
  Findings collect(SteadyTime until, bool& late, bool show) {
    Findings all;
    std::size_t done = 0;
    for (auto& probe : running_) {
      if (show) std::fprintf(stderr, "\rlooking: %zu of %zu, %-30s", done, running_.size(), probe.name.c_str());
      ++done;
      const auto left = std::max(until - system_clock().now(), SteadyTime::duration(0));
      if (probe.result.wait_for(left) != std::future_status::ready) {
        late = true;
        all.push_back({Level::warning, probe.name, "this took too long, and was given up",
                       "what it looks at does not answer", "repeat it; look at what it needs"});
        continue;
      }
      auto found = probe.result.get();
      std::ranges::move(found, std::back_inserter(all));
    }
    if (show) std::fprintf(stderr, "\r%-60s\r", "");
    return all;
  }

 private:
  struct Running {
    std::string name;
    std::future<Findings> result;
  };
  std::vector<Running> running_;
};

void append(Findings& to, Findings more) { std::ranges::move(more, std::back_inserter(to)); }

Findings names_keys_certificates(const config::Config& config, bool network) {
  AskedNames asked;
  if (network) asked = ask_names(config);
  Findings all;
  const std::string& host = config.settings().myhostname;
  const WallTime now = system_clock().wall_now();
  if (network) {
    if (!asked.fault.empty())
      all.push_back({Level::error, "names", asked.fault, "no name can be looked up", "put the setting right"});
    for (const std::string& fault : asked.key_faults)
      all.push_back({Level::error, "dkim", fault, "mail that should be signed or sealed waits", "put it right"});
    if (asked.fault.empty()) {
      append(all, judge_names(asked.names));
      append(all, judge_keys(asked.keys));
    }
  }
  for (const auto& facts : look_at_certificates(config, asked.tlsa)) append(all, judge_certificate(facts, host, now));
  return all;
}

std::string disk_to_look_at(const config::Settings& s) {
  for (const std::string& directory : {s.queue_log_directory, s.queue_directory})
    if (::access(directory.c_str(), F_OK) == 0) return directory;
  return {};
}

/// What check finds, in the form of this report.
Findings configuration(const std::string& directory, bool dns) {
  Findings all;
  for (const CheckFinding& found : check_findings(directory, dns)) {
    static constexpr std::array kLevels = {Level::error, Level::warning, Level::note};
    all.push_back({kLevels.at(static_cast<std::size_t>(found.problem.severity)),
                   "configuration",
                   found.problem.message(),
                   {},
                   found.advice.empty() ? std::string() : "write: " + found.advice});
  }
  if (all.empty()) all.push_back({Level::ok, "configuration", "penstock check finds nothing", {}, {}});
  return all;
}

/// Whether services are to answer; with what is to be said of a master that is missing.
bool is_running(const config::Config& config, Findings& all) {
  const auto master = service::running_master(service::state_directory(config.settings()));
  if (!master || *master) return master.has_value();
  const auto now = service::interim(config);
  if (!now)
    all.push_back({Level::note,
                   "master",
                   "it is not running, and a keeper that runs would not be seen",
                   now.error().message(),
                   {}});
  if (!now || !now->any()) return false;
  all.push_back({Level::warning, "master", "there is none at the moment: " + describe(*now),
                 "programs serve meanwhile, but one that ends is not started again",
                 "read in the log why master ended; penstock status waits for the next one"});
  return true;
}

void show(const Findings& all, bool json) {
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Finding& f : all) {
      nlohmann::ordered_json one;
      one["level"] = kLevelWords[static_cast<int>(f.level)];
      one["area"] = f.area;
      one["what"] = f.what;
      if (!f.why.empty()) one["why"] = f.why;
      if (!f.advice.empty()) one["advice"] = f.advice;
      list.push_back(std::move(one));
    }
    std::printf("%s\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  for (const Finding& f : all) {
    std::printf("%-8s%s: %s\n", kLevelWords[static_cast<int>(f.level)], f.area.c_str(), f.what.c_str());
    if (!f.why.empty()) std::printf("          why:  %s\n", f.why.c_str());
    if (!f.advice.empty()) std::printf("          do:   %s\n", f.advice.c_str());
  }
}

}  // namespace

int Doctor::run() {
  auto inspected = config::inspect(directory_);
  if (!inspected) return fail_with(EX_CONFIG, inspected.error().message());
  const auto config = std::make_shared<const config::Config>(*std::move(inspected));
  const bool network = options_.network;
  Findings all = configuration(directory_, false);
  const bool unreadable =
      std::ranges::any_of(config->problems(), [](const auto& p) { return p.severity == config::Severity::error; });
  bool late = false;
  if (!unreadable) {
    const bool running = is_running(*config, all);
    Probes probes;
    probes.add("names and certificates", [config, network] { return names_keys_certificates(*config, network); });
    probes.add("clock", [config] { return judge_clock(look_at_clock(config->settings())); });
    probes.add("kernel", [config] { return judge_kernel(look_at_kernel(*config)); });
    if (const std::string disk = disk_to_look_at(config->settings()); !disk.empty())
      probes.add("disk", [config, disk] { return judge_disk(look_at_disk(config->settings(), disk)); });
    if (network) {
      const std::string host = config->settings().myhostname;
      for (const auto& targets : {own_services(*config, running), servers_of(*config)})
        for (const Target& target : targets)
          probes.add(target.facts.what, [target, host] { return judge_server(try_target(target), host); });
      for (const std::string& table : served_tables(*config))
        probes.add(table, [table, host] { return judge_server(try_table(table), host); });
      if (!options_.probe.empty())
        probes.add("outgoing", [name = options_.probe] {
          std::vector<ServerFacts> tries;
          for (const Target& target : outgoing(name)) tries.push_back(try_target(target));
          return judge_probe(name, tries);
        });
      else if (!goes_out_by_one_host(*config))
        append(all, judge_probe({}, {}));
    }
    append(all, probes.collect(system_clock().now() + kLongest, late, ::isatty(STDERR_FILENO) == 1));
  }
  Findings sorted;  // the worst first
  for (const Level level : {Level::error, Level::warning, Level::note, Level::ok})
    std::ranges::copy_if(all, std::back_inserter(sorted), [&](const Finding& f) { return f.level == level; });
  show(sorted, options_.json);
  const bool bad = std::ranges::any_of(all, [](const Finding& f) { return f.level == Level::error; });
  const int status = bad ? EX_CONFIG : EX_OK;
  if (late) {
    // A probe still works with what an ordinary end would take away.
    std::fflush(nullptr);
    std::_Exit(status);
  }
  return status;
}

}  // namespace pen::tools
