#pragma once
/// Lines of a Postfix master.cf that are served another way here: what becomes of them, and the sentence that says so.
///
/// Use:     adapt_services(services, handed_to, file, problems);      // part of reading master.cf
///          cleanup_settings()                                         // what -o of a cleanup service may change
/// Done:    qmgr and pickup of type fifo (Postfix before 2.11) are of type unix. An inet service postscreen becomes
///          smtpd with the -o, the process limit and the rights of the pass service that postscreen hands clients to
///          (smtpd_service_name), because no postscreen is here. Column chroot: y is taken as n. pipe with flag D or
///          O takes one recipient at a time, as if NAME_destination_recipient_limit were 1.
/// Pure; any thread.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/master_cf.h"
#include "lib/config/problem.h"

namespace pen::config {

/// handed_to: the value of smtpd_service_name for a service, its -o first.
void adapt_services(std::vector<Service>& services, const std::function<std::string(const Service&)>& handed_to,
                    const std::string& file, Problems& problems);

/// Names of settings that Postfix's cleanup reads and that act here in the programs that take mail in, sorted.
std::span<const std::string_view> cleanup_settings();
/// Programs that hand mail to cleanup in Postfix: cleanup_service_name names whose -o they get.
bool takes_mail_in(const Service& service);

/// A pipe service with flag D or O: it can serve one recipient at a time only.
bool one_recipient_only(const Service& service);

}  // namespace pen::config
