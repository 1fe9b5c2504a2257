// The test's manager makes the class itself.
#pragma once
#define PLUGINLIB_EXPORT_CLASS(CLASS, BASE) \
    std::unique_ptr<BASE> make_controller() { return std::make_unique<CLASS>(); }
