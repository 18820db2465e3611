#pragma once
/// Restriction lists as main.cf writes them, read once into a form that is quick to evaluate.
///
/// Use:     RestrictionReader reader(open_options, classes);
///          auto class_lists = reader.read_classes();
///          auto list = reader.read(Stage::recipient, settings.smtpd_recipient_restrictions);
///          reader.warnings() says what is unknown or cannot act here.
/// Rules:   a name that Postfix has and Penstock does not, and a name nobody knows, stay in the list and answer
///          "451 4.3.5 Server configuration error" when they are reached: a policy is never loosened by a gap of ours.
/// Source:  Postfix postconf(5) smtpd_*_restrictions, SMTPD_ACCESS_README, access(5).
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/restrictions.h"
#include "lib/map/map.h"

namespace pen::smtpd {

using config::Check;

struct Restriction {
  Check check = Check::unknown;
  config::Waits waits = config::Waits::never;
  bool guards_relaying = false;
  std::string name;             // as written
  map::MapList maps;            // check_*_access
  std::size_t class_index = 0;  // restriction_class
};
using RestrictionList = std::vector<Restriction>;

/// Where in a session a list is asked; also decides what a bare "type:table" means.
enum class Stage : std::uint8_t { client, helo, sender, relay, recipient, data, end_of_data };

class RestrictionReader {
 public:
  struct Class {
    std::string name;
    std::vector<std::string> items;
  };
  RestrictionReader(map::OpenOptions open, std::vector<Class> classes) : open_(open), classes_(std::move(classes)) {}

  RestrictionList read(Stage stage, const std::vector<std::string>& items);
  /// All classes, in the order given: class_index points here.
  std::vector<RestrictionList> read_classes();
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  map::OpenOptions open_;
  std::vector<Class> classes_;
  std::vector<std::string> warnings_;
};

/// Whether some check of the lists may have to wait: for DNS or a slow table.
bool may_wait(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth = 0);
/// Whether the list, as far as it can be seen, ends mail for destinations that are not ours: Postfix wants at least one
/// of these in smtpd_relay_restrictions or smtpd_recipient_restrictions.
bool guards_relaying(const RestrictionList& list);

}  // namespace pen::smtpd
