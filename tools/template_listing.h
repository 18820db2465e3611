#pragma once
/// Prints the texts of notices for penconf: as a template file has them, or as they are sent.
///
/// Use:     int status = show_templates(config, Texts::expanded);
/// Form:    of postconf(1): "NAME_template = <<EOF" and the header lines, or "expanded_NAME_text = <<EOF" and the text
///          alone; what the first prints is a template file.
/// Errors:  the template file cannot be read or has a mistake: EX_CONFIG.
#include "lib/config/config.h"

namespace pen::tools {

enum class Texts { none, written, expanded };
int show_templates(const config::Config& config, Texts texts);

}  // namespace pen::tools
