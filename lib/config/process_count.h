#pragma once
/// How many processes a service of master.cf has: smtpd_process_count, smtp_process_count.
///
/// Source:  docs/decisions/005-one-process-per-service.md.
#include "lib/config/config.h"

namespace pen::config {

/// Clients that are tested first (postscreen) meet one process: what is known of them is in its memory.
unsigned process_count(const Config& config, const Service& entry, unsigned processors);
/// Those that this process may use; 1 if that is not known.
unsigned processors();

}  // namespace pen::config
