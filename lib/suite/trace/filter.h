#pragma once
/// Which sessions a reader of a trace wants: the words of ipc::trace::Filter, taken apart once.
///
/// Words:   of hosts: networks (192.0.2.0/24, 2001:db8::1), names, ".domain" for all that is below. Of domains: names
///          and ".domain". Of recipients: addresses and "@domain". Letter case does not matter.
/// Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/network.h"
#include "lib/suite/ipc/trace.h"

namespace pen::trace {

/// Hosts by network or name.
class HostWords {
 public:
  explicit HostWords(const std::vector<std::string>& words);
  bool empty() const { return networks_.empty() && names_.empty(); }
  /// Either may be empty: not known.
  bool fits(std::string_view address, std::string_view name) const;

 private:
  std::vector<Network> networks_;
  std::vector<std::string> names_;
};

class Filter {
 public:
  explicit Filter(const ipc::trace::Filter& words);
  /// What is wrong with the words, for the reader; empty: nothing.
  static std::string problem(const ipc::trace::Filter& words);

  /// Whether anything is said of messages, so that sessions fit by one message and not by another.
  bool about_messages() const { return !domains_.empty() || !recipients_.empty() || !queue_ids_.empty(); }
  /// Nothing is said at all: every session fits.
  bool everything() const { return clients_.empty() && hosts_.empty() && !about_messages(); }
  const HostWords& clients() const { return clients_; }
  const HostWords& hosts() const { return hosts_; }
  bool any_domain() const { return domains_.empty(); }
  bool any_recipient() const { return recipients_.empty(); }
  bool any_queue_id() const { return queue_ids_.empty(); }
  /// The domain of the address is among those asked for.
  bool domain_fits(std::string_view address) const;
  bool recipient_fits(std::string_view address) const;
  bool queue_id_fits(std::string_view id) const;

 private:
  HostWords clients_, hosts_;
  std::vector<std::string> domains_, recipients_, queue_ids_;
};

}  // namespace pen::trace
