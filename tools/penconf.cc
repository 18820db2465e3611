#include "tools/settings_tool.h"

int main(int argc, char** argv) { return pen::service::run_tool<pen::tools::SettingsTool>(argc, argv); }
