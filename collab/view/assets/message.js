// A page without more than a message.

startTheme();
document.documentElement.dataset.ready = "";
