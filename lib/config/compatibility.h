#pragma once
/// Lines of a Postfix master.cf that Penstock serves differently: changes them, and says what was changed.
///
/// Use:     adapt_services(services, handed_to, file, problems);      // part of reading master.cf
///          cleanup_settings()                                         // what -o of a cleanup service may change
/// Done:    qmgr and pickup of type fifo (Postfix before 2.11) become type unix. An inet service postscreen becomes
///          smtpd that tests clients before it serves them (argument -S), with the process limit, privileges and
///          -o of the pass service that postscreen hands clients to (smtpd_service_name), and its own -o
///          postscreen_*. Column chroot: y counts as n. pipe with flag D or O takes one recipient at a time, as if
///          NAME_destination_recipient_limit were 1.
/// Pure; any thread.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/master_cf.h"
#include "lib/config/problem.h"

namespace pen::config {

/// The option with which smtpd tests clients (lib/suite/service/arguments.h).
inline constexpr const char* kScreens = "-S";

/// handed_to: returns a service's value of smtpd_service_name; its -o count first.
void adapt_services(std::vector<Service>& services, const std::function<std::string(const Service&)>& handed_to,
                    const std::string& file, Problems& problems);

/// The service that runs as the queue manager: the one called qmgr, else the first that runs qmgr or oqmgr. A second
/// would fight with it for the queue log. nullptr: there is none.
const Service* queue_manager(const std::vector<Service>& services);
/// Whether it runs qmgr without being that one.
bool is_second_queue_manager(const std::vector<Service>& services, const Service& service);
/// What is said of such a service.
inline constexpr std::string_view kSecondQueueManager =
    "a second queue manager is not run: it would take the queue log away from the first";

/// Settings that Postfix's cleanup reads and that here act in the programs that take mail in, sorted.
std::span<const std::string_view> cleanup_settings();
/// The name under which such a program has the -o recipient_delimiter of its cleanup service: it counts where addresses
/// are mapped (canonical, virtual alias, BCC). What the program itself splits goes by its own recipient_delimiter.
inline constexpr std::string_view kCleanupDelimiter = "cleanup_recipient_delimiter";
/// Whether the program hands mail to cleanup in Postfix: it gets the -o of the service in cleanup_service_name.
bool takes_mail_in(const Service& service);

/// Whether it is a pipe service with flag D or O, which can serve only one recipient at a time.
bool one_recipient_only(const Service& service);

}  // namespace pen::config
