#include <algorithm>
#include <array>
#include <set>

#include "lib/base/text.h"
#include "lib/config/compatibility.h"
#include "lib/config/config.h"
#include "lib/config/expand.h"
#include "lib/config/nearest.h"
#include "lib/config/restrictions.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

// Table types whose source may be settings in main.cf that begin with the table's name.
constexpr std::array<std::string_view, 6> kSourceTypes = {"ldap", "mysql", "pgsql", "sqlite", "memcache", "mongodb"};

/// Joins start and the text of a row into one sentence part: no capital in the middle, no full stop.
std::string joined(std::string_view start, std::string_view text) {
  std::string sentence(text);
  while (sentence.ends_with('.')) sentence.pop_back();
  const bool word = sentence.size() > 1 && !(sentence[1] >= 'A' && sentence[1] <= 'Z');
  if (word && !sentence.starts_with("Penstock")) sentence[0] = ascii_lower(sentence[0]);
  return std::string(start) + sentence;
}

/// Reports what the names in a configuration mean for mail.
class Reporter {
 public:
  explicit Reporter(const Config& config) : config_(config) {
    for (const std::string& name : config.names_set()) {
      const std::string value = config.written(name).value_or("");
      note_uses(value);
    }
    for (const Service& service : config.master()) {
      for (const Assignment& a : service.overrides) note_uses(a.value);
      for (const std::string& argument : service.arguments) note_uses(argument);
    }
    for (const Row& row : rows()) known_.push_back(row.name);
    for (const auto& c : config.settings().smtpd_restriction_classes) classes_.insert(c);
  }

  void name_set(const std::string& name, const std::string& value, const Place& place) {
    Problem problem{Severity::note, place.file, place.line, name, ""};
    if (const Row* row = find_row(name)) {
      if (!judge(*row, value, problem)) return undefined_names(*row, value, place);
    } else if (const auto split = split_transport_name(name)) {
      if (!judge_transport(*split, value, problem)) return;
    } else if (used_.contains(name) || classes_.contains(name)) {
      return;
    } else if (is_table_source(name)) {
      problem.text = "taken as a setting of the table whose name it begins with";
    } else {
      problem.severity = Severity::warning;
      problem.text = "no setting has this name, and no other setting refers to it";
      if (const std::string near = nearest_name(name, known_); !near.empty())
        problem.text += "; is " + near + " meant?";
    }
    found.push_back(std::move(problem));
  }

  void service(const Service& s) {
    const Place place{config_.master_file(), s.line};
    if (const ProgramNote* note = note_on_program(s.command)) {
      found.push_back({note->work_is_done ? Severity::note : Severity::warning, place.file, place.line, s.label(),
                       "the program " + s.command + " is not run: " + std::string(note->text)});
    } else if (!is_own_program(s.command)) {
      found.push_back({Severity::warning, place.file, place.line, s.label(),
                       "there is no program " + printable(s.command, 60) + "; the service is not run"});
    }
    for (const Assignment& a : s.overrides) override_set(s, a, place);
    if (takes_mail_in(s)) cleanup_of(s, place);
    if (s.overrides.empty()) return;
    const Config own = config_.with(s);
    for (Problem p : own.problems()) {
      if (!p.file.empty()) continue;
      p.file = place.file;
      p.line = place.line;
      found.push_back(std::move(p));
    }
  }

  void transports() {
    const Settings& s = config_.settings();
    const auto need = [this](const std::string& name, const std::string& value, bool used, std::string_view mail) {
      const std::string transport = value.substr(0, value.find(':'));
      if (!used || transport.empty() || find_transport(transport)) return;
      const auto place = config_.where(name).value_or(Place{config_.main_file(), 0});
      found.push_back({Severity::warning, place.file, place.line, name,
                       "master.cf has no service " + transport + ": mail " + std::string(mail) + " will wait"});
    };
    need("default_transport", s.default_transport, true, "for other domains");
    need("relay_transport", s.relay_transport, !s.relay_domains.empty(), "for relay_domains");
    need("local_transport", s.local_transport, !s.mydestination.empty(), "for mydestination");
    need("virtual_transport", s.virtual_transport, !s.virtual_mailbox_domains.empty(), "for virtual_mailbox_domains");
  }

  void relaying() {
    const Settings& s = config_.settings();
    for (const auto* list : {&s.smtpd_relay_restrictions, &s.smtpd_recipient_restrictions})
      for (const std::string& item : *list) {
        const RestrictionName* known = find_restriction(item);
        if (known != nullptr && known->guards_relaying) return;
        if (classes_.contains(item)) return;  // smtpd checks the items of a class
      }
    const auto place = config_.where("smtpd_relay_restrictions").value_or(Place{config_.main_file(), 0});
    found.push_back({Severity::error, place.file, place.line, "smtpd_relay_restrictions",
                     "neither this nor smtpd_recipient_restrictions holds reject_unauth_destination or another "
                     "refusal: anybody could relay; smtpd will not take mail"});
  }

  /// Reports items in smtpd's restriction lists that cannot act.
  void restrictions() {
    for (const Row& row : rows()) {
      if (row.kind == Class::acts && row.name.starts_with("smtpd_") && row.type == Type::list &&
          row.name.ends_with("_restrictions"))
        restrictions(std::string(row.name));
    }
    for (const std::string& name : config_.settings().smtpd_restriction_classes) restrictions(name);
  }
  void restrictions(const std::string& list) {
    const auto place = config_.where(list);
    const auto items = config_.list(list);
    if (!place || !items) return;
    const auto say = [&](Severity severity, std::string text) {
      found.push_back({severity, place->file, place->line, list, std::move(text)});
    };
    for (std::size_t i = 0; i < items->size(); ++i) {
      const std::string& item = (*items)[i];
      const RestrictionName* known = find_restriction(item);
      if (known == nullptr) {
        const bool table = item.find(':') != std::string::npos;
        if (!table && !classes_.contains(item))
          say(Severity::warning,
              "no restriction is called " + printable(item, 60) + ": mail that reaches it gets 451 4.3.5");
        continue;
      }
      if (known->check == Check::unsupported) say(Severity::warning, cannot_act(*known));
      const bool probes =
          known->check == Check::reject_unverified_sender || known->check == Check::reject_unverified_recipient;
      const std::string& service = config_.settings().address_verify_service_name;
      if (probes && config_.find_service(service, ServiceType::unix_stream) == nullptr)
        say(Severity::warning, item + " needs the service " + printable(service, 60) +
                                   ", which is not in master.cf: mail that reaches it gets 450; add the line \"" +
                                   printable(service, 60) + " unix - - n - 1 verify\"");
      if (known->takes_argument && ++i == items->size())
        say(Severity::warning, item + " ends the list, but needs an argument after it");
    }
  }

  void level() {
    if (config_.where("compatibility_level") || config_.names_set().empty()) return;
    found.push_back({Severity::note, config_.main_file(), 0, "compatibility_level",
                     "not set: the defaults of " + config_.settings().compatibility_level +
                         " apply, where Postfix would take those of 0 (append_dot_mydomain, mynetworks_style, "
                         "relay_domains, smtputf8_enable)"});
  }

  Problems found;

 private:
  void note_uses(std::string_view text) {
    for (NameUse& use : names_in(text)) used_.insert(std::move(use.name));
    for (const std::string& item : split_list(text)) {
      const std::size_t colon = item.rfind(':');
      if (colon == std::string::npos || colon == 0) continue;
      const std::size_t before = item.rfind(':', colon - 1);
      const std::string_view type = std::string_view(item).substr(
          before == std::string::npos ? 0 : before + 1, colon - (before == std::string::npos ? 0 : before + 1));
      if (std::ranges::find(kSourceTypes, type) != kSourceTypes.end() && item.find('/') == std::string::npos)
        tables_.insert(item.substr(colon + 1));
    }
  }

  /// Checks an -o of master.cf: one of a service that does not run has no effect, except those that cleanup passes on.
  void override_set(const Service& s, const Assignment& a, const Place& place) {
    const bool handed_on = s.command == "cleanup" && std::ranges::binary_search(cleanup_settings(), a.name);
    const bool runs = is_own_program(s.command) && s.type != ServiceType::pass;
    const bool hands_on = s.type == ServiceType::pass;  // to the smtpd in place of postscreen
    const Row* row = find_row(a.name);
    if (runs || hands_on || handed_on || !row || row->kind != Class::acts) return name_set(a.name, a.value, place);
    found.push_back({Severity::note, place.file, place.line, a.name,
                     "-o without effect: the program " + s.command + " is not run"});
  }

  /// Checks that the cleanup service named by a service exists.
  void cleanup_of(const Service& s, const Place& place) {
    const auto name = config_.with(s).settings().cleanup_service_name;
    const Service* cleanup = config_.find_service(name, ServiceType::unix_stream);
    if ((cleanup && cleanup->command == "cleanup") || name == "cleanup") return;
    found.push_back({Severity::warning, place.file, place.line, s.label(),
                     "cleanup_service_name: master.cf has no service " + printable(name, 60) +
                         " with the command cleanup; mail is taken in without its -o"});
  }

  /// Whether there is something to report about a documented name.
  bool judge(const Row& row, const std::string& value, Problem& problem) const {
    switch (row.kind) {
      case Class::acts:
        return false;
      case Class::accepted:
        problem.text = joined("accepted, without effect: ", row.text);
        return true;
      case Class::unsupported: {
        const auto set = config_.expand(value), usual = config_.expand(row.default_text);
        if (set && usual && trim(*set) == trim(*usual)) {
          problem.text = "not supported, and set to what is the case anyway";
        } else {
          problem.severity = Severity::warning;
          problem.text = joined("not supported: ", row.text);
        }
        return true;
      }
      case Class::obsolete:
        problem.severity = Severity::warning;
        problem.text = row.successor.empty()
                           ? joined("an old name: ", row.text)
                           : joined("an old name; set " + std::string(row.successor) + ": ", row.text);
        return true;
    }
    return false;
  }

  bool find_transport(std::string_view name) const {
    return std::ranges::any_of(config_.master(),
                               [&](const Service& s) { return s.name == name && s.type != ServiceType::inet; });
  }

  bool judge_transport(const TransportName& split, std::string_view value, Problem& problem) const {
    if (!find_transport(split.transport)) {
      problem.severity = Severity::warning;
      problem.text = "master.cf has no service " + std::string(split.transport) + ", so this has no effect";
      return true;
    }
    const Service* service = config_.find_service(split.transport, ServiceType::unix_stream);
    const std::string_view command = service ? std::string_view(service->command) : std::string_view();
    if (split.suffix->suffix == "_time_limit") {
      if (command == "pipe" || command == "spawn") return false;
      problem.text = "accepted, without effect: only commands of pipe and spawn have such a limit";
      return true;
    }
    if (split.suffix->suffix == "_destination_recipient_limit" && service && one_recipient_only(*service) &&
        trim(value) != "1") {
      problem.text = "taken as 1: " + service->label() + " has flag D or O, for one recipient at a time";
      return true;
    }
    if (split.suffix->acts) return false;
    problem.text = "accepted, without effect: the scheduler does not use this number";
    return true;
  }

  /// Reports "$name" that nobody sets, in a setting that acts.
  void undefined_names(const Row& row, const std::string& value, const Place& place) {
    if (row.type == Type::raw) return;
    for (const NameUse& use : names_in(value)) {
      if (use.tested || config_.written(use.name)) continue;
      found.push_back({Severity::warning, place.file, place.line, std::string(row.name),
                       "it refers to $" + printable(use.name, 60) + ", which is not set and stands for nothing"});
    }
  }

  bool is_table_source(std::string_view name) const {
    return std::ranges::any_of(tables_, [&](const std::string& table) {
      return name.size() > table.size() + 1 && name.starts_with(table) && name[table.size()] == '_';
    });
  }

  const Config& config_;
  std::set<std::string, std::less<>> used_, classes_, tables_;
  std::vector<std::string_view> known_;
};

}  // namespace

Problems Config::report() const {
  Reporter reporter(*this);
  for (const std::string& name : names_)
    reporter.name_set(name, written(name).value_or(""), where(name).value_or(Place{}));
  for (const Service& service : services_) reporter.service(service);
  reporter.transports();
  reporter.relaying();
  reporter.restrictions();
  reporter.level();
  Problems all = problems_;
  all.insert(all.end(), reporter.found.begin(), reporter.found.end());
  sort_problems(all);
  return all;
}

}  // namespace pen::config
