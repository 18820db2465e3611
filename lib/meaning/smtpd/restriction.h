#pragma once
/// Parses the restriction lists of main.cf once into a form that is quick to evaluate.
///
/// Use:     RestrictionReader reader(open_options, classes, settings);
///          auto class_lists = reader.read_classes();
///          auto list = reader.read(Stage::recipient, settings.smtpd_recipient_restrictions);
///          reader.warnings() names items that are unknown or cannot act here.
/// Rules:   a name that only Postfix has, or an unknown name, stays in the list and answers "451 4.3.5 Server
///          configuration error" when it is reached: a gap of ours never loosens a policy.
/// Source:  Postfix postconf(5) smtpd_*_restrictions, SMTPD_ACCESS_README, access(5).
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/config/restrictions.h"
#include "lib/map/map.h"
#include "lib/meaning/smtpd/access_table.h"
#include "lib/meaning/smtpd/policy_service.h"
#include "lib/net/dnsbl/list.h"

namespace pen::smtpd {

using config::Check;

struct Restriction {
  Check check = Check::unknown;
  config::Waits waits = config::Waits::never;
  std::string name;                                           // as written
  map::MapList maps;                                          // check_*_access
  std::vector<Print> prints{Print::certificate, Print::key};  // check_ccert_access: in which order
  /// What reject_rbl_client and its kin ask; nullptr: another restriction.
  std::shared_ptr<const dnsbl::List> dns_list;
  std::shared_ptr<const PolicyService> service;  // check_policy_service
  seconds pause{0};                              // sleep
  std::size_t class_index = 0;                   // restriction_class
};
using RestrictionList = std::vector<Restriction>;

/// The point of a session at which a list is evaluated; it also decides the meaning of a bare "type:table".
enum class Stage : std::uint8_t { client, helo, sender, relay, recipient, data, end_of_data, etrn };

class RestrictionReader {
 public:
  struct Class {
    std::string name;
    std::vector<std::string> items;
  };
  /// The settings must outlive the reader.
  RestrictionReader(map::OpenOptions open, std::vector<Class> classes, const config::Settings& settings)
      : open_(open), classes_(std::move(classes)), settings_(settings) {}

  /// The longest sleep: clients give up before (RFC 5321 section 4.5.3.2).
  static constexpr seconds kMaxPause{3600};

  /// Of the list for this stage, as smtpd_client_restrictions.
  RestrictionList read(Stage stage, const std::vector<std::string>& items);
  /// All classes in the given order: class_index refers to it.
  std::vector<RestrictionList> read_classes();
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void read_argument(Restriction& r, const config::RestrictionName& known, const std::string& argument);
  void warn_once(std::string text);
  RestrictionList read_items(Stage stage, const std::vector<std::string>& items);
  void open_maps(Restriction& r, const std::string& spec);
  map::OpenOptions open_;  // with the setting that is being read
  std::vector<Class> classes_;
  const config::Settings& settings_;
  std::vector<std::string> warnings_;
};

/// Whether some check in the lists may have to wait: for DNS or a slow table.
bool may_wait(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth = 0);
/// Whether a policy server may be asked: it must hear of one recipient after the other.
bool asks_policy(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth = 0);

}  // namespace pen::smtpd
